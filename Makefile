# The two commands to start with: `make demo` and `make test`. Both do their own set-up.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
BENCH_INSTALLED := .venv/.installed-bench
DEMO := demo

# What TensorFlow says of itself while it starts.
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help setup demo test bench lint format clean

help:
	@echo "make demo    train on dates, export, serve, query, draw (about 2 minutes)"
	@echo "make test    run the tests"
	@echo "make bench   measure speed against PyTorch, in runs/benchmarks (15 minutes)"
	@echo "make lint    check format, lint and types"
	@echo "make format  format the code"
	@echo "make setup   create .venv only; the others do it by themselves"
	@echo "make clean   remove .venv and the demo's files"

setup: $(INSTALLED)

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[serving,beam,dev]'
	@touch $@

demo: setup
	$(BIN)/python -m trainers.make_dates --output_dir=$(DEMO)/data
	$(BIN)/python -m trainers.train_translation \
	    --flagfile=trainers/recipes/dates.flags \
	    --train_tsv=$(DEMO)/data/train.tsv --valid_tsv=$(DEMO)/data/valid.tsv \
	    --model_dir=$(DEMO)/model
	$(BIN)/python -m trainers.evaluate --model_dir=$(DEMO)/model \
	    --tsv=$(DEMO)/data/test.tsv --beam_width=3 --max_length=12
	$(BIN)/python -m trainers.export --model_dir=$(DEMO)/model \
	    --export_dir=$(DEMO)/export --beam_width=3 --max_length=12
	$(BIN)/python -m serving.demo --model_base_path=$(DEMO)/export \
	    --heat_map=$(DEMO)/attention.png

# The layers and the searches run on JAX as well.
test: setup
	$(BIN)/python -m pytest
	KERAS_BACKEND=jax $(BIN)/python -m pytest tests/layers tests/decoding

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[bench]'
	@touch $@

# On a machine with nothing else to do.
bench: $(BENCH_INSTALLED)
	$(BIN)/python -m benchmarks.run_all --output_dir=runs/benchmarks

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv $(DEMO)

"""The models being served: their versions, their states, who is using them."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import tensorflow as tf
from absl import logging
from tensorflow_serving.apis import model_pb2
from tensorflow_serving.apis.get_model_status_pb2 import ModelVersionStatus

from serving.errors import ServingError, invalid_argument, not_found, status_code
from serving.servable import Servable
from serving.versions import find_versions


@dataclass
class _Loaded:
    servable: Servable
    users: int = 0


class Model:
    """The versions of one model; the latest on disk is the one to serve.

    A new version is loaded before the old one is unloaded, and the old one is
    closed only when its last request is answered. A version that cannot be loaded
    leaves the old one serving, and is not tried again until its directory has gone
    and come back.

    Args:
        name: the name that requests give.
        base_path: the directory with one numeric directory a version.
        load: makes the servable of a version directory.
    """

    def __init__(
        self, name: str, base_path: Path, load: Callable[[Path], Servable] = Servable
    ):
        self.name = name
        self.base_path = base_path
        self._load_servable = load
        self._loaded: dict[int, _Loaded] = {}
        self._draining: dict[int, _Loaded] = {}
        self._statuses: dict[int, ModelVersionStatus] = {}
        self._aspired: set[int] = set()
        self._changed = threading.Condition()

    def update(self) -> None:
        """Compares with the base path once; loads and unloads accordingly.

        Raises:
            OSError: the base path cannot be read; what is loaded stays.
        """
        on_disk = find_versions(self.base_path)
        aspired = {max(on_disk)} if on_disk else set()
        for version in aspired - self._aspired - set(self._loaded):
            self._load(version, on_disk[version])
        self._aspired = aspired
        if not aspired or aspired & set(self._loaded):
            for version in set(self._loaded) - aspired:
                self._unload(version)

    @contextmanager
    def use(self, version: int | None = None) -> Iterator[tuple[int, Servable]]:
        """Holds a version against unloading for the length of the block.

        Args:
            version: the version to use; the latest when None.

        Yields:
            The version number and its servable.

        Raises:
            ServingError: NOT_FOUND, the version is not available.
        """
        with self._changed:
            if version is None:
                version = max(self._loaded, default=None)
                if version is None:
                    raise _servable_not_found(self.name, None)
            elif version not in self._loaded:
                raise _servable_not_found(self.name, version)
            loaded = self._loaded[version]
            loaded.users += 1
        try:
            yield version, loaded.servable
        finally:
            with self._changed:
                loaded.users -= 1
                self._changed.notify_all()

    def statuses(self) -> list[ModelVersionStatus]:
        """Returns the status of every version seen so far, the highest first."""
        with self._changed:
            return [self._statuses[v] for v in sorted(self._statuses, reverse=True)]

    def close(self) -> None:
        """Closes every version at once; runs in progress are cancelled."""
        with self._changed:
            closing = {**self._loaded, **self._draining}
            self._loaded = {}
        for version, loaded in closing.items():
            loaded.servable.close()
            self._set_status(version, ModelVersionStatus.END)

    def _load(self, version: int, path: Path) -> None:
        self._set_status(version, ModelVersionStatus.LOADING)
        try:
            servable = self._load_servable(path)
        except Exception as error:
            # A model that cannot be loaded, for whatever reason, is that model's
            # status and must not end the server.
            code, message = _describe(error)
            logging.error(
                "Cannot load model %s version %d: %s", self.name, version, message
            )
            self._set_status(version, ModelVersionStatus.END, code, message)
            return
        with self._changed:
            self._loaded[version] = _Loaded(servable)
            self._set_status(version, ModelVersionStatus.AVAILABLE)
        logging.info("Loaded model %s version %d from %s", self.name, version, path)

    def _unload(self, version: int) -> None:
        with self._changed:
            self._set_status(version, ModelVersionStatus.UNLOADING)
            self._draining[version] = self._loaded.pop(version)
            self._changed.wait_for(lambda: self._draining[version].users == 0)
        self._draining.pop(version).servable.close()
        # The graph holds cycles; collect them now, not when memory has run out.
        gc.collect()
        self._set_status(version, ModelVersionStatus.END)
        logging.info("Unloaded model %s version %d", self.name, version)

    def _set_status(
        self,
        version: int,
        state: int,
        code: grpc.StatusCode = grpc.StatusCode.OK,
        message: str = "",
    ) -> None:
        status = ModelVersionStatus(version=version, state=state)
        status.status.error_code = code.value[0]
        status.status.error_message = message
        with self._changed:
            self._statuses[version] = status


class Registry:
    """The models of a server by name, kept up to date from their base paths.

    Args:
        models: the models; their names differ.
    """

    def __init__(self, models: list[Model]):
        self._models = {model.name: model for model in models}
        self._stop = threading.Event()
        self._poller: threading.Thread | None = None

    def start(self, poll_seconds: float) -> None:
        """Loads every model, then looks for new versions in the background.

        Args:
            poll_seconds: seconds between two looks at the base paths; 0 for none.

        Raises:
            OSError: a base path cannot be read.
            ServingError: a model has no version, or its latest cannot be loaded.
        """
        for model in self._models.values():
            model.update()
            _check_available(model)
        if poll_seconds > 0:
            self._poller = threading.Thread(
                target=self._poll, args=[poll_seconds], name="poll-versions"
            )
            self._poller.start()

    @contextmanager
    def use(self, spec: model_pb2.ModelSpec) -> Iterator[tuple[int, Servable]]:
        """Holds the version that a request names; see `Model.use`.

        Args:
            spec: name and optionally version of the model.

        Yields:
            The version number and its servable.

        Raises:
            ServingError: INVALID_ARGUMENT for a spec without a name or with a label,
                NOT_FOUND for an unknown model or version.
        """
        if not spec.name:
            raise invalid_argument("ModelSpec has no name specified.")
        if spec.HasField("version_label"):
            # Labels are assigned by a model config, which this server has not.
            raise invalid_argument(
                f"Unrecognized servable version label: {spec.version_label}"
            )
        version = spec.version.value if spec.HasField("version") else None
        model = self._models.get(spec.name)
        if model is None:
            raise _servable_not_found(spec.name, version)
        with model.use(version) as used:
            yield used

    def statuses(self, spec: model_pb2.ModelSpec) -> list[ModelVersionStatus]:
        """Returns the states of a model's versions, the highest version first.

        Args:
            spec: name and optionally version of the model; a label is ignored.

        Raises:
            ServingError: NOT_FOUND for an unknown model or version.
        """
        model = self._models.get(spec.name)
        statuses = model.statuses() if model else []
        if spec.HasField("version"):
            wanted = spec.version.value
            statuses = [status for status in statuses if status.version == wanted]
            if not statuses:
                raise not_found(f"Could not find version {wanted} of model {spec.name}")
        if not statuses:
            raise not_found(f"Could not find any versions of model {spec.name}")
        return statuses

    def stop(self) -> None:
        """Ends the polling and closes every model."""
        self._stop.set()
        # Twice: cancelled runs free a poller that waits for them, and what it was
        # loading meanwhile is closed after it has ended.
        for model in self._models.values():
            model.close()
        if self._poller is not None:
            self._poller.join()
        for model in self._models.values():
            model.close()

    def _poll(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            for model in self._models.values():
                try:
                    model.update()
                except OSError as error:
                    logging.log_every_n_seconds(
                        logging.ERROR, "Cannot look for versions: %s", 60, error
                    )


def _check_available(model: Model) -> None:
    statuses = model.statuses()
    if not statuses:
        raise not_found(
            f"No versions of model {model.name} found under base path "
            f"{model.base_path}. Expected directories with a number as their name."
        )
    if statuses[0].state != ModelVersionStatus.AVAILABLE:
        raise ServingError(
            status_code(statuses[0].status.error_code),
            f"Version {statuses[0].version} of model {model.name} under "
            f"{model.base_path} could not be loaded: "
            f"{statuses[0].status.error_message}",
        )


def _servable_not_found(name: str, version: int | None) -> ServingError:
    which = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return not_found(f"Servable not found for request: {which}")


def _describe(error: Exception) -> tuple[grpc.StatusCode, str]:
    if isinstance(error, ServingError):
        return error.code, error.message
    if isinstance(error, tf.errors.OpError):
        return status_code(error.error_code), error.message
    return grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}"

"""Runs `trainers.train_translation` as `test_distribution.py` needs it.

    python distribution_worker.py '{"weights": "w.npz"}' FLAGS

The first argument says, as JSON, where to put the model's weights when training has
ended (`weights`), as how many logical devices to see the CPU (`cpus`), at which epoch
and batch to be killed (`kill`), and after which epoch to stop (`stop`).
"""

import json
import os
import runpy
import signal
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_attn.training import distribution

options = json.loads(sys.argv.pop(1))
fit = distribution.fit


class Events(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if options.get("kill") == [self.epoch, batch]:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_end(self, epoch, logs=None):
        if options.get("stop") == epoch:
            self.model.stop_training = True


def watched_fit(model, *args, callbacks, **kwargs):
    history = fit(model, *args, callbacks=[Events(), *callbacks], **kwargs)
    np.savez(options["weights"], *model.get_weights())
    return history


distribution.fit = watched_fit
if "cpus" in options:
    [cpu] = tf.config.list_physical_devices("CPU")
    device = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [device] * options["cpus"])
runpy.run_module("trainers.train_translation", run_name="__main__", alter_sys=True)

"""A model behind its gRPC and REST ports."""

from dataclasses import dataclass
from pathlib import Path

import grpc

from serving.grpc_service import start_grpc
from serving.registry import Model, Registry
from serving.rest import RestServer, start_rest

_GRACE_SECONDS = 10


@dataclass
class ModelServer:
    """A running server; make one with `start`.

    Args:
        registry: the models served.
        port: the gRPC port it listens on.
        rest_port: the REST port it listens on, None without one.
    """

    registry: Registry
    port: int
    rest_port: int | None
    _grpc: grpc.Server
    _rest: RestServer | None

    @classmethod
    def start(
        cls,
        model_name: str,
        model_base_path: str | Path,
        *,
        port: int = 8500,
        rest_port: int | None = None,
        bind_address: str = "127.0.0.1",
        grpc_max_threads: int | None = None,
        rest_timeout_ms: int = 30_000,
        poll_seconds: float = 1.0,
    ) -> "ModelServer":
        """Loads the model, then opens the ports: an open port is a ready model.

        Args:
            model_name: the name that requests give.
            model_base_path: the directory with one numeric directory a version.
            port: the gRPC port; 0 for any free one.
            rest_port: the REST port; 0 for any free one, None for no REST.
            bind_address: the address to listen on.
            grpc_max_threads: gRPC requests answered at a time; 4 a CPU when None.
            rest_timeout_ms: milliseconds after which a REST request is given up.
            poll_seconds: seconds between two looks for new versions; 0 for none.

        Returns:
            The running server.

        Raises:
            OSError: the base path cannot be read, or a port cannot be bound.
            ServingError: there is no version, or the latest cannot be loaded.
        """
        registry = Registry([Model(model_name, Path(model_base_path))])
        try:
            registry.start(poll_seconds)
            grpc_server, bound_port = start_grpc(
                registry, bind_address, port, grpc_max_threads
            )
        except BaseException:
            registry.stop()
            raise
        server = cls(registry, bound_port, None, grpc_server, None)
        if rest_port is None:
            return server
        try:
            server._rest = start_rest(
                registry, bind_address, rest_port, rest_timeout_ms
            )
        except BaseException:
            server.stop()
            raise
        server.rest_port = server._rest.port
        return server

    def stop(self) -> None:
        """Refuses new requests, answers those in progress, and ends.

        A request that takes longer than 10 seconds more is cancelled.
        """
        refused = self._grpc.stop(_GRACE_SECONDS)
        if self._rest is not None:
            self._rest.stop()
        refused.wait()
        self.registry.stop()

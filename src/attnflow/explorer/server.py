"""The explorer's server: it serves the page, and a WebSocket for every viewer."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attnflow._common.checks import InputError
from attnflow._common.extras import require_extra
from attnflow.experiments import vocabulary
from attnflow.explorer import PAGE

MAX_VIEWERS = 12  # pages that are computed for at the same time
TOO_MANY = "The explorer has {viewers} already, which is its limit. Close another page and reload."
MAX_REFUSALS = 50  # unreadable messages in a row after which a connection is closed
SECONDS_TO_CLOSE = 0.3  # of connections after Ctrl-C; then they are aborted
FAILED = "The explorer failed to send a message. The page connects again."
log = logging.getLogger("attnflow.explorer")


def require_installed() -> None:
    """Raise InputError, with the command that installs them, unless the packages of the server are installed."""
    require_extra("explore", "The explorer")


def hello() -> dict[str, Any]:
    """The first message to a page: scenarios, known words of settings, limits, colours."""
    from attnflow.explorer import catalogue, descriptions, limit_choices, page_requests, protocol, request_limits, tours
    from attnflow.explorer.export.recorded_run import palette

    offered = [
        {
            "name": scenario.name,
            "words": descriptions.sentences_of(scenario),
            "paper": scenario.paper,
            "title": descriptions.PAPERS[scenario.paper],
            "coalesces": scenario.coalesces,
            "settings": dataclasses.asdict(scenario.settings),
            "tour": [dataclasses.asdict(step) for step in tours.TOURS.get(scenario.name, ())],
        }
        for scenario in catalogue.all_scenarios().values()
    ]
    known = {setting: vocabulary.known_words(setting) for setting in vocabulary.SETTINGS}
    limits = {**request_limits.COUNTS, "numbers": request_limits.MAX_NUMBERS, "bytes": page_requests.MESSAGE_BYTES}
    return {"type": "hello", "version": protocol.VERSION, "catalogue": offered, "words": known, "limits": limits,
            "palette": palette(), "choices": [dataclasses.asdict(one) for one in limit_choices.CHOICES]}  # fmt: skip


def application(names: tuple[str, ...] | None = None, max_viewers: int = MAX_VIEWERS) -> Any:
    """The ASGI application. It answers requests for the host `names`; its viewers are in ``app.state.viewers``."""
    require_installed()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount, WebSocketRoute
    from starlette.staticfiles import StaticFiles

    from attnflow.explorer.computing_turns import ComputingTurns
    from attnflow.explorer.security import LOCAL, HostCheck

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette):
        app.state.helpers = ThreadPoolExecutor(min(os.cpu_count() or 1, 4), thread_name_prefix="attnflow panels")
        # Files have a thread of their own, so that a long movie does not stop the panels.
        app.state.writers = ThreadPoolExecutor(1, thread_name_prefix="attnflow files")
        yield
        for viewer in list(app.state.viewers):
            viewer.close()
        for pool in (app.state.helpers, app.state.writers):
            pool.shutdown(wait=False, cancel_futures=True)

    routes = [WebSocketRoute("/live", _live), Mount("/", StaticFiles(directory=PAGE, html=True))]
    app = Starlette(routes=routes, middleware=[Middleware(HostCheck, names=names or LOCAL)], lifespan=lifespan)
    app.state.viewers, app.state.max_viewers, app.state.turns = set(), max_viewers, ComputingTurns()
    return app


async def _live(websocket: Any) -> None:
    """Serve one viewer until its connection ends."""
    from attnflow.explorer.outbox import Outbox
    from attnflow.explorer.viewer import Viewer

    state = websocket.app.state
    await websocket.accept()
    if len(state.viewers) >= state.max_viewers:
        count = state.max_viewers
        sentence = TOO_MANY.format(viewers=f"{count} viewer{'' if count == 1 else 's'}")
        await websocket.send_json({"type": "problem", "sentence": sentence, "final": True})
        await websocket.close(1013)
        return
    outbox = Outbox(asyncio.get_running_loop())
    viewer = Viewer(outbox.put, state.helpers, state.writers, state.turns)
    state.viewers.add(viewer)
    outbox.put("hello", hello())
    tasks = [asyncio.create_task(_receive(websocket, viewer, outbox)), asyncio.create_task(_send(websocket, outbox))]
    try:
        with contextlib.suppress(asyncio.CancelledError):  # the server stops
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if (failure := _failure_of(tasks)) is not None:
            log.error("The connection of a viewer failed", exc_info=failure)
            await _close(websocket, 1011, FAILED)
    finally:
        viewer.close()
        state.viewers.discard(viewer)
        for task in tasks:
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # which is known above
            task.cancel()


def _failure_of(tasks: list[asyncio.Task]) -> BaseException | None:
    """The error that ended a task, unless the page has closed the connection."""
    from starlette.websockets import WebSocketDisconnect

    errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    return next((error for error in errors if error and not isinstance(error, WebSocketDisconnect | OSError)), None)


async def _close(websocket: Any, code: int, sentence: str) -> None:
    """Close a connection that may be closed already."""
    from starlette.websockets import WebSocketDisconnect

    with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
        await websocket.close(code, sentence)


async def _receive(websocket: Any, viewer: Any, outbox: Any) -> None:
    from attnflow.explorer import page_requests
    from attnflow.explorer.connection_limits import MessageRate

    refused, rate = 0, MessageRate()
    while refused < MAX_REFUSALS:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        try:
            if message.get("text") is None:
                raise InputError("Messages must be JSON text, but this one is binary.")
            viewer.post(page_requests.parse(message["text"]))
            refused = 0
        except InputError as error:
            refused += 1
            outbox.put("problem", {"type": "problem", "sentence": str(error)})
        # While this waits, nothing more is read from the connection.
        await asyncio.sleep(rate.pause(asyncio.get_running_loop().time()))
    await _close(websocket, 1008, "Too many unreadable messages.")


async def _send(websocket: Any, outbox: Any) -> None:
    from starlette.websockets import WebSocketState

    while True:
        for message in await outbox.take():
            if websocket.application_state is not WebSocketState.CONNECTED:
                return  # the server has closed the connection, after too many unreadable messages
            if isinstance(message, bytes):
                await websocket.send_bytes(message)
            else:
                await websocket.send_text(message)


def listening_socket(host: str, wanted: int | None) -> socket.socket:
    """A socket that listens at the wanted port, or at the first free one from 8000 on; no other server can take it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in [wanted] if wanted is not None else range(8000, 8100):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, _option_of_address(), 1)
        try:
            listener.bind((host, port))
            listener.listen()  # of two sockets bound to one port with SO_REUSEADDR, only one may listen on Linux
        except OverflowError:
            listener.close()
            raise InputError(f"`port` must be between 0 and 65535, but it is {port}.") from None
        except OSError as error:
            listener.close()
            if wanted is not None:
                reason = error.strerror or str(error)
                raise InputError(f"{host}:{port} cannot be used: {reason}. Choose another port.") from None
        else:
            return listener
    raise InputError("No port from 8000 to 8099 is free. Choose one with --port.")


def _option_of_address() -> int:
    """The option by which a port can be used again at once; on Windows, where SO_REUSEADDR would let two servers listen
    at one port, the option that keeps others out."""
    return getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)


def serve(listener: socket.socket, started: Callable[[], None], names: tuple[str, ...] = ()) -> None:
    """Serve until Ctrl-C; call `started` as soon as pages can be loaded.

    Threads may still be inside compiled code when this returns: end the process by `end_process`.
    """
    require_installed()
    from attnflow.explorer.security import LOCAL

    with contextlib.suppress(KeyboardInterrupt):
        new_server(application((*LOCAL, *names)), started).run([listener])


def end_process() -> None:
    """End the process with exit code 0, without waiting for threads.

    Python's own shutdown waits for files that are being written, and aborts if a thread returns from compiled code.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe
            stream.flush()
    os._exit(0)


def new_server(app: Any, started: Callable[[], None]) -> Any:
    """The server that `serve` runs with a listening socket."""
    import uvicorn

    from attnflow.explorer import page_requests
    from attnflow.explorer.connection_limits import TimedProtocol

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started()

        async def shutdown(self, sockets: Any = None) -> None:
            # Connections whose clients read nothing would not close.
            asyncio.get_running_loop().call_later(SECONDS_TO_CLOSE, self._abort_connections)
            await super().shutdown(sockets)

        def _abort_connections(self) -> None:
            for connection in list(self.server_state.connections):
                connection.transport.abort()

    config = uvicorn.Config(
        app,
        log_level="warning",
        http=TimedProtocol,
        ws="websockets-sansio",
        ws_max_size=page_requests.MESSAGE_BYTES,
        ws_per_message_deflate=False,  # the bits of tokens do not compress
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    return Server(config)

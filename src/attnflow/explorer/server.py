"""The explorer's server: it serves the page, and a WebSocket for every viewer."""

import asyncio
import contextlib
import dataclasses
import functools
import os
import socket
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


def require_installed() -> None:
    """Raise InputError, with the command that installs them, unless the packages of the server are installed."""
    require_extra("explore", "The explorer")


@functools.cache
def hello() -> dict[str, Any]:
    """The first message to a page: scenarios, known words of settings, limits, colours."""
    from attnflow.explorer import catalogue, descriptions, page_requests, protocol, request_limits
    from attnflow.explorer.export.recorded_run import palette

    offered = [
        {
            "name": scenario.name,
            "words": descriptions.sentences_of(scenario),
            "paper": scenario.paper,
            "title": descriptions.PAPERS[scenario.paper],
            "coalesces": scenario.coalesces,
            "settings": dataclasses.asdict(scenario.settings),
        }
        for scenario in catalogue.all_scenarios().values()
    ]
    known = {setting: vocabulary.known_words(setting) for setting in vocabulary.SETTINGS}
    limits = {**request_limits.COUNTS, "numbers": request_limits.MAX_NUMBERS, "bytes": page_requests.MESSAGE_BYTES}
    return {"type": "hello", "version": protocol.VERSION, "catalogue": offered, "words": known, "limits": limits,
            "palette": palette()}  # fmt: skip


def application(names: tuple[str, ...] | None = None, max_viewers: int = MAX_VIEWERS) -> Any:
    """The ASGI application. It answers requests for the host `names`; its viewers are in ``app.state.viewers``."""
    require_installed()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount, WebSocketRoute
    from starlette.staticfiles import StaticFiles

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
    app.state.viewers, app.state.max_viewers = set(), max_viewers
    return app


async def _live(websocket: Any) -> None:
    """Serve one viewer until its connection ends."""
    from starlette.websockets import WebSocketDisconnect

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
    viewer = Viewer(outbox.put, state.helpers, state.writers)
    state.viewers.add(viewer)
    outbox.put("hello", hello())
    sending = asyncio.create_task(_send(websocket, outbox))
    try:
        await _receive(websocket, viewer, outbox)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the page was closed
    finally:
        sending.cancel()
        viewer.close()
        state.viewers.discard(viewer)
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
            await sending


async def _receive(websocket: Any, viewer: Any, outbox: Any) -> None:
    from attnflow.explorer import page_requests

    refused = 0
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
        await asyncio.sleep(0)  # an endless stream of messages must not block other viewers
    await websocket.close(1008, "Too many unreadable messages.")


async def _send(websocket: Any, outbox: Any) -> None:
    while True:
        for message in await outbox.take():
            if isinstance(message, bytes):
                await websocket.send_bytes(message)
            else:
                await websocket.send_text(message)


def free_port(host: str, wanted: int | None) -> int:
    """The wanted port, if it is free, or the first free port from 8000 on."""
    for port in [wanted] if wanted is not None else range(8000, 8100):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OverflowError:
                raise InputError(f"`port` must be between 0 and 65535, but it is {port}.") from None
            except OSError as error:
                if wanted is not None:
                    reason = error.strerror or str(error)
                    raise InputError(f"{host}:{port} cannot be used: {reason}. Choose another port.") from None
                continue
            return probe.getsockname()[1]
    raise InputError("No port from 8000 to 8099 is free. Choose one with --port.")


def serve(host: str, port: int, started: Callable[[], None], names: tuple[str, ...] = ()) -> None:
    """Serve until Ctrl-C; call `started` as soon as pages can be loaded."""
    require_installed()
    from attnflow.explorer.security import LOCAL

    with contextlib.suppress(KeyboardInterrupt):
        new_server(application((*LOCAL, *names)), host, port, started).run()


def new_server(app: Any, host: str, port: int, started: Callable[[], None]) -> Any:
    """The server that `serve` runs."""
    import uvicorn

    from attnflow.explorer import page_requests

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started()

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=page_requests.MESSAGE_BYTES,
        ws_per_message_deflate=False,  # the bits of tokens do not compress
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    return Server(config)

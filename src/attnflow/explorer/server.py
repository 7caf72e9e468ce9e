"""The explorer's server: its own page, and a WebSocket for every viewer. It computes with the library."""

import asyncio
import contextlib
import dataclasses
import functools
import importlib.util
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attnflow._common.checks import InputError
from attnflow.experiments import specs
from attnflow.explorer import PAGE

MOST_VIEWERS = 12
NEEDED = ("starlette", "uvicorn", "websockets")
TOO_MANY = "The explorer has {viewers} already, which is all it can compute for. Close another page and reload."
MOST_REFUSALS = 50  # malformed messages in a row before the connection is closed


def require_installed() -> None:
    """Raise InputError with the line that installs what is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"The explorer needs {', '.join(missing)}. Install with: pip install 'attnflow[explore]'.")


@functools.cache
def hello() -> dict[str, Any]:
    """What the page needs to know first: scenarios, words, limits, colours."""
    from attnflow.experiments.scenarios import SPACES
    from attnflow.explorer import catalogue, descriptions, protocol, request_limits
    from attnflow.explorer.export.recorded_run import palette

    offered = [
        {"name": one.name, "words": descriptions.explained(one), "paper": one.paper,
         "title": descriptions.PAPERS[one.paper],
         "coalesces": one.coalesces, "settings": dataclasses.asdict(one.settings)}
        for one in catalogue.every().values()
    ]  # fmt: skip
    known = {"space": SPACES, "attention": specs.ATTENTIONS, "mask": specs.MASKS, "value": specs.SPECTRA,
             "query_key": specs.SPECTRA, "normalisation": specs.NORMALISATIONS, "start": specs.STARTS,
             "solver": specs.SOLVERS}  # fmt: skip
    most = {**request_limits.COUNTS, "numbers": request_limits.MOST_NUMBERS, "bytes": protocol.MESSAGE_BYTES}
    return {"type": "hello", "version": protocol.VERSION, "catalogue": offered, "words": known, "limits": most,
            "palette": palette()}  # fmt: skip


def application(names: tuple[str, ...] | None = None, most_viewers: int = MOST_VIEWERS) -> Any:
    """The ASGI application. `names` are the hosts it goes by; its viewers are in ``app.state.viewers``."""
    require_installed()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount, WebSocketRoute
    from starlette.staticfiles import StaticFiles

    from attnflow.explorer.security import LOCAL, Guard

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette):
        app.state.helpers = ThreadPoolExecutor(min(os.cpu_count() or 1, 4), thread_name_prefix="attnflow panels")
        app.state.writers = ThreadPoolExecutor(1, thread_name_prefix="attnflow files")  # movies must not stop panels
        yield
        for viewer in list(app.state.viewers):
            viewer.close()
        for pool in (app.state.helpers, app.state.writers):
            pool.shutdown(wait=False, cancel_futures=True)

    routes = [WebSocketRoute("/live", _live), Mount("/", StaticFiles(directory=PAGE, html=True))]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, names=names or LOCAL)], lifespan=lifespan)
    app.state.viewers, app.state.most_viewers = set(), most_viewers
    return app


async def _live(websocket: Any) -> None:
    """One viewer from connection to its end."""
    from starlette.websockets import WebSocketDisconnect

    from attnflow.explorer.outbox import Outbox
    from attnflow.explorer.viewer import Viewer

    state = websocket.app.state
    await websocket.accept()
    if len(state.viewers) >= state.most_viewers:
        most = state.most_viewers
        sentence = TOO_MANY.format(viewers=f"{most} viewer{'' if most == 1 else 's'}")
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
        pass  # the page has gone
    finally:
        sending.cancel()
        viewer.close()
        state.viewers.discard(viewer)
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
            await sending


async def _receive(websocket: Any, viewer: Any, outbox: Any) -> None:
    from attnflow.explorer import protocol

    refused = 0
    while refused < MOST_REFUSALS:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        try:
            if message.get("text") is None:
                raise InputError("Messages must be JSON text, but this one is binary.")
            viewer.post(protocol.parse(message["text"]))
            refused = 0
        except InputError as error:
            refused += 1
            outbox.put("problem", {"type": "problem", "sentence": str(error)})
        await asyncio.sleep(0)  # endless messages must not keep others from being heard
    await websocket.close(1008, "Too many messages that cannot be read.")


async def _send(websocket: Any, outbox: Any) -> None:
    while True:
        for message in await outbox.take():
            if isinstance(message, bytes):
                await websocket.send_bytes(message)
            else:
                await websocket.send_text(message)


def free_port(host: str, wanted: int | None) -> int:
    """The port that was asked for, or the first free one from 8000 on."""
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
    """Serve until Ctrl-C; `started` is called when pages can be loaded."""
    require_installed()
    from attnflow.explorer.security import LOCAL

    with contextlib.suppress(KeyboardInterrupt):
        new_server(application((*LOCAL, *names)), host, port, started).run()


def new_server(app: Any, host: str, port: int, started: Callable[[], None]) -> Any:
    """The server that `serve` runs."""
    import uvicorn

    from attnflow.explorer import protocol

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
        ws_max_size=protocol.MESSAGE_BYTES,
        ws_per_message_deflate=False,  # frames are random to a compressor
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    return Server(config)

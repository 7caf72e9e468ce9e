"""Write the live page: the explorer's page with an engine in the browser, as static files.

    python docs/live/build.py FOLDER

The engine is the native core, compiled by emcc (Debian: apt-get install emscripten). Without emcc the folder gets one
page that says so.
"""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bundle import bundle

from attnflow.experiments import scenarios, vocabulary
from attnflow.experiments.settings import Settings
from attnflow.explorer import PAGE, server, tours
from attnflow.explorer.measure.model_facts import model_facts
from attnflow.integrate.request import MIN_STEP_AT_JUMPS

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src" / "attnflow" / "model" / "native"  # an installed package has no sources of it
FUNCTIONS = (
    "engine_numbers engine_free_numbers engine_new engine_free engine_begin engine_advance engine_first_tokens "
    "engine_tokens engine_time engine_steps engine_exponential random_seed random_uniforms random_normals"
)
FLAGS = ["-std=c++17", "-O3", "-msimd128", "-fno-exceptions", "-fno-rtti", "-fno-math-errno"]

INSTALL = "For more, install attnflow: pip install '.[explore]' in its repository, then attnflow explore."
ABSENT_WORDS = (
    "This page computes in your browser. Other models, trained transformers, movies, datasets and "
    f"the comparison of a run with its prediction are in the installed explorer. {INSTALL}"
)
VERDICT = {
    "answer": "none",
    "summary": "The installed explorer compares runs with their predictions",
    "evidence": "",
    "says": "The installed explorer compares runs with their predictions.",
    "limit": "undecided",
}
NOT_BUILT = (
    "The live page is left out, since there is no emcc here. Install it (Debian: apt-get install emscripten) and build "
    "the documentation again."
)

ENGINE = "engine/bundle.js"
EARLY_ENGINE = (  # read by engine_source.js
    f"earlyEngine = {{ worker: new Worker('{ENGINE}', {{ type: 'module' }}), events: [] }}; "
    "earlyEngine.worker.onmessage = earlyEngine.worker.onerror = (event) => earlyEngine.events.push(event);"
)

LIMITS = {"n": 500, "d": 8, "heads": 8, "minStepAtJumps": MIN_STEP_AT_JUMPS}
WORDS = {
    "attention": ("softmax", "unnormalised", "hardmax"),
    "mask": ("full", "causal", "window"),
    "normalisation": ("post", "ngpt", "sqrt"),
    "solver": ("tsit5", "euler", "heun", "rk4"),
    "start": ("box", "ball", "gaussian", "sphere", "hemisphere", "circle", "angles"),
    "space": tuple(vocabulary.SPACES.words),
    "value": tuple(vocabulary.MATRICES.words),
    "query_key": tuple(vocabulary.MATRICES.words),
}
"""The words of each setting that the engine knows."""
ABSENT = ("redraw", "mlp", "kappa", "ask")
"""Settings and parts of the page that the engine does not serve."""


def main(folder: Path) -> None:
    """Write all files of the live page into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("emcc") is None:
        print(NOT_BUILT)
        page = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Live page</title><p>{NOT_BUILT}</p></html>"
        (folder / "index.html").write_text(page, "utf-8")
        return
    compile_engine(folder / "engine.wasm")
    (folder / "scenarios.json").write_text(json.dumps(data(), ensure_ascii=False, separators=(",", ":")), "utf-8")
    for path in [*PAGE.glob("*.css"), *PAGE.glob("*.svg")]:
        shutil.copy(path, folder / path.name)
    shutil.copytree(HERE / "engine", folder / "engine", dirs_exist_ok=True)
    # Some fifty modules would be as many requests, which take half of the time until tokens are seen.
    (folder / "main.js").write_text(bundle(PAGE / "main.js"), "utf-8")
    (folder / "engine" / "bundle.js").write_text(bundle(HERE / "engine" / "worker.js"), "utf-8")
    (folder / "index.html").write_text(index_page(), "utf-8")


def compile_engine(to: Path) -> None:
    """Compile the engine, unless a file newer than its sources exists."""
    sources = [HERE / "engine.cpp", NATIVE / "runs.cpp"]
    used = [*sources, *HERE.glob("*.h"), *NATIVE.glob("*.h"), Path(__file__)]
    if to.exists() and to.stat().st_mtime > max(path.stat().st_mtime for path in used):
        return
    exported = ",".join(f"_{name}" for name in FUNCTIONS.split())
    options = ["STANDALONE_WASM", "ALLOW_MEMORY_GROWTH=1", f"EXPORTED_FUNCTIONS={exported}"]
    command = ["emcc", *FLAGS, f"-I{NATIVE}", *map(str, sources), "--no-entry"]
    written = to.with_name("unfinished.wasm")
    subprocess.run([*command, *(part for option in options for part in ("-s", option)), "-o", str(written)], check=True)
    written.replace(to)


def data() -> dict[str, Any]:
    """What the engine needs of the library: scenarios with their sentences and predictions, words and their numbers."""
    hello = server.hello()
    offered = [
        {**entry, "predictions": predictions(entry["name"])} for entry in hello["catalogue"] if is_offered(entry)
    ]
    words = {name: [word for word in known if word in WORDS.get(name, ())] for name, known in hello["words"].items()}
    hello |= {"catalogue": offered, "words": words, "limits": LIMITS, "absent": ABSENT, "install": ABSENT_WORDS}
    return {
        "hello": hello,
        "vocabulary": {name: described(name, known) for name, known in WORDS.items()},
        "limits": LIMITS,
        "install": INSTALL,
        "verdict": VERDICT,
    }


def is_offered(entry: dict[str, Any]) -> bool:
    """Whether the engine integrates a scenario of the catalogue."""
    settings, name_of = entry["settings"], lambda word: (word or "tsit5").partition(":")[0]
    parts = {name: settings.get(name) for name in ("redraw", "mlp", "kappa", "prompt")}
    is_known = all(name_of(settings[name]) in known for name, known in WORDS.items() if name in settings)
    is_known = is_known and entry["name"] in scenarios.CATALOGUE  # controls and prompts are computed by the server
    return is_known and not entry["coalesces"] and all(part is None for part in parts.values())


def predictions(name: str) -> list[dict[str, Any]]:
    """What the theorems predict for a scenario and for every step of its tour."""
    scenario = scenarios.CATALOGUE[name]
    steps = tours.TOURS.get(name, ())
    changes = [{}, *(dict(step.changes) for step in steps if step.changes)]
    return [predicted(scenarios.change(scenario.settings, some), scenario.statement) for some in changes]


def predicted(settings: Settings, statement: str) -> dict[str, Any]:
    """The prediction for one run of some settings."""
    one = dataclasses.replace(settings, runs=None)
    setup = scenarios.build(one)
    facts = model_facts(setup.flow, setup.solver, setup.tokens, statement)
    return {"settings": dataclasses.asdict(one), "prediction": facts["prediction"]}


def described(setting: str, known: tuple[str, ...]) -> dict[str, Any]:
    """The numbers that each word of a setting takes, and the entries of matrices that are fixed."""
    found = vocabulary.SETTINGS[setting].words
    return {name: _word(found[name], name) for name in known}


def _word(word: vocabulary.Word, name: str) -> dict[str, Any]:
    is_whole = any(isinstance(number, int) for number in word.defaults)
    entries = None if word.size is None else word.make(d=word.size, rng=None).ravel().tolist()
    return {"defaults": word.defaults, "isWhole": is_whole, "count": word.count, "size": word.size, "entries": entries}


def index_page() -> str:
    """The explorer's page with the address of the engine, which begins before the page's own program is there."""
    engine = f'  <meta name="engine" content="{ENGINE}">\n  <script>{EARLY_ENGINE}</script>\n'
    return (PAGE / "index.html").read_text("utf-8").replace("</head>", f"{engine}</head>", 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

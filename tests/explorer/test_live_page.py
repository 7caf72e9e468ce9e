"""The live page in a real browser: its engine computes what the library computes, and the page works without a server."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from tests.helpers.browser_page import needs_chromium, value, wait_for
from tests.helpers.live_page import FileServer, built, needs_emcc

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments import scenarios, vocabulary
from attnflow.explorer.descriptions import sentences_of
from attnflow.explorer.measure.cluster_colours import ClusterColours
from attnflow.explorer.measure.flow_measurements import FlowMeasurements
from attnflow.explorer.recording import Frame
from attnflow.explorer.settings_changes import changed_settings
from attnflow.integrate.request import MIN_STEP_AT_JUMPS, checked_request

pytestmark = [needs_chromium, needs_emcc]
MAX_BYTES = 1_000_000  # of all files
SHARES = (0.02, 0.1, 0.25, 0.5, 0.75)  # of the time of a run, at which tokens are compared


@pytest.fixture(scope="module")
def explorer():
    """The file server takes the place of the explorer's server in the fixtures of pages."""
    served = FileServer(built())
    yield served
    served.stop()
    shutil.rmtree(built())
    built.cache_clear()


@pytest.fixture(scope="module")
def offered():
    return json.loads((built() / "scenarios.json").read_text("utf-8"))["hello"]["catalogue"]


RUN = """async ([settings, tokens, times]) => {
  const [wasm, model, words] = await Promise.all(["wasm", "model", "words"].map((name) => import(`./engine/${name}.js`)));
  const read = (name) => fetch(name);
  await wasm.load("engine.wasm");
  words.setVocabulary(await (await read("scenarios.json")).json());
  const built = model.build(settings), own = model.firstTokens(settings, null);
  const engine = new wasm.Engine(built, tokens, 0), states = [];
  for (const time of times) {
    let state = null;
    while (!state) state = engine.advance(time, 1);
    states.push(Array.from(state));
  }
  return { own: Array.from(own), states, matrices: built.heads.map((head) => [head.queryKey, head.value]) };
}"""


def engine_run(page, settings, tokens, times):
    given = dataclasses.asdict(dataclasses.replace(settings, runs=None))
    return page.evaluate(RUN, [given, tokens.ravel().tolist(), list(times)])


def largest_difference(page, settings):
    """The largest difference of a coordinate from the library's run, over the size of the tokens."""
    setup = scenarios.build(settings)
    times = settings.end * np.array(SHARES)
    run = af.simulate(setup.flow, setup.tokens, [0.0, *times, settings.end], solver=setup.solver, progress=False)
    found = engine_run(page, settings, setup.tokens, times)
    np.testing.assert_allclose(found["own"], setup.tokens.ravel(), rtol=1e-13, atol=1e-14)
    states = np.reshape(found["states"], (len(times), *setup.tokens.shape))
    return np.abs(states - run.tokens.values[1:-1]).max() / np.abs(run.tokens.values).max()


def test_the_engine_computes_what_the_library_computes_in_every_scenario(page, explorer, offered):
    page.goto(explorer.address)
    settings = {
        entry["name"]: dataclasses.replace(scenarios.get(entry["name"]).settings, runs=None) for entry in offered
    }
    # Where hardmax jumps, adaptive steps are accepted at a length of 1e-5, and rounding decides where they end. Fixed
    # steps end at the same times.
    jumping = settings["hardmax"]
    settings["hardmax"] = dataclasses.replace(jumping, solver="rk4:0.01")
    differences = {name: largest_difference(page, some) for name, some in settings.items()}

    assert max(differences.values()) < 1e-8, differences
    assert largest_difference(page, jumping) < 2 * MIN_STEP_AT_JUMPS
    assert len(differences) >= 15


MEASURE = """async ([scenario, changes, frames]) => {
  const [wasm, runs, words, facts] = await Promise.all(["wasm", "run", "words", "facts"].map((name) => import(`./engine/${name}.js`)));
  await wasm.load("engine.wasm");
  const data = await (await fetch("scenarios.json")).json();
  words.setVocabulary(data);
  const run = new runs.Run(1, data.hello.catalogue.find(({ name }) => name === scenario), { changes });
  for (let k = 0; k < frames; k++) {
    let frame = null;
    while (!frame) frame = run.compute(1, null, 1);
    run.accept(frame, true);
  }
  const image = run.attention(), { frame } = run;
  return { time: frame.time, tokens: Array.from(frame.tokens), colours: Array.from(frame.colours), share: run.share,
    first: Array.from(run.first), numbers: run.measured(), row: run.row(1),
    image: Array.from(image.weights), facts: facts.modelFields(run.scenario, run), settings: run.settings };
}"""

MEASURED = {
    "sphere": {"beta": 4.0, "n": 300},
    "kuramoto": {},
    "renyi": {"n": 60},
    "hardmax": {},
    "hyperplanes-3d": {},
    "codim2": {},
    "mixed": {},
    "polytope": {"value": "pair:1,0.5", "mask": "causal+window:3"},
    "minus-identity": {"d": 5},
    "multihead": {"value": "gaussian", "attention": "unnormalised:1"},
    "layernorm-ngpt": {"value": "eigenvalues:2,0.5,-1"},
    "conjecture1": {"n": 12, "value": "jordan:0.5", "query_key": "goe", "seed": 123456789},
}


def test_the_engine_is_compiled_from_a_server_that_does_not_know_its_type(page, explorer):
    page.route("**/engine.wasm", lambda route: route.fulfill(path=built() / "engine.wasm", content_type="text/plain"))
    page.goto(explorer.address)
    found = page.evaluate("""async () => {
      const wasm = await import("./engine/wasm.js");
      await wasm.load("engine.wasm");
      return Array.from(new wasm.Random(3, []).uniforms(4));
    }""")

    np.testing.assert_array_equal(found, np.random.default_rng(3).random(4))


def test_panels_and_words_are_those_of_the_server(page, explorer):
    page.goto(explorer.address)
    for name, changes in MEASURED.items():
        assert_measures_the_same(page, name, changes, frames=120)


def assert_measures_the_same(page, name, changes, frames):
    found = page.evaluate(MEASURE, [name, changes, frames])
    scenario = scenarios.get(name)
    settings = scenarios.change(dataclasses.replace(scenario.settings, runs=None), changes)
    setup = scenarios.build(settings)
    first = Frame(0, 0.0, setup.tokens)
    tokens = np.reshape(found["tokens"], setup.tokens.shape)
    shown = Frame(frames, found["time"], tokens)
    measurements = FlowMeasurements(setup.flow, setup.solver, first, statement=scenario.statement)
    numbers, facts = measurements.numbers(shown), measurements.facts()

    np.testing.assert_allclose(found["first"], setup.tokens.ravel(), rtol=1e-13, atol=1e-14)
    assert found["numbers"]["clusters"] == numbers["clusters"]
    assert found["numbers"]["height"] == pytest.approx(numbers["height"], rel=1e-10)
    np.testing.assert_allclose(found["numbers"]["cosines"], numbers["cosines"], atol=1.1e-5)
    assert_same_planes(found["numbers"]["planes"], numbers["planes"], tokens)
    image = measurements.attention_image(shown)
    np.testing.assert_allclose(found["image"], image.ravel(), atol=1e-6)
    row = measurements.attention_row(shown, 1, image)
    np.testing.assert_allclose([weight for _, weight in found["row"]], [weight for _, weight in row], atol=2e-6)
    for field in ("centres", "height", "isSphere", "model", "isEstimated"):
        assert found["facts"][field] == facts[field], field
    assert found["facts"]["closeness"] == pytest.approx(facts["closeness"], rel=1e-12)
    assert_same_spectrum(found["facts"]["eigenvalues"], facts["eigenvalues"])
    assert_same_line(found["facts"]["leading"], facts["leading"])
    assert found["facts"]["value"].partition(" ")[0] == facts["value"].partition(" ")[0]
    assert found["facts"]["words"] == sentences_of(scenario, settings)


def assert_same_planes(found, expected, tokens):
    assert (found is None) == (expected is None)
    if expected is None:
        return
    one, other = (np.array(planes["rows"]) for planes in (found, expected))
    # Rows of equal eigenvalues are a basis of the same space.
    assert one.shape == other.shape
    assert np.linalg.matrix_rank(np.vstack([one, other]), tol=1e-6) == len(one)
    assert len(found["levels"]) == len(expected["levels"])
    if len(one) == 1:
        np.testing.assert_allclose(found["levels"], expected["levels"], atol=1e-6 * np.abs(tokens).max())


def assert_same_spectrum(found, expected):
    for one, other in zip(found, expected, strict=True):
        values = [np.sort_complex(np.round([complex(*value) for value in some], 4)) for some in (one, other)]
        np.testing.assert_allclose(values[0], values[1], atol=2e-4)


def assert_same_line(found, expected):
    assert (found is None) == (expected is None)
    if expected is not None:
        assert abs(np.dot(found, expected)) == pytest.approx(1.0, abs=1e-8)


def test_colours_of_clusters_are_those_of_the_server(page, explorer):
    page.goto(explorer.address)
    colours, expected = None, None
    for frames in (200, 350, 420):
        found = page.evaluate(MEASURE, ["sphere", {"beta": 9.0}, frames])
        tokens = np.reshape(found["tokens"], (-1, 3))
        colours = np.array(found["colours"])
        expected = ClusterColours(found["facts"]["closeness"]).update(tokens).colours
        # Colours depend on earlier frames, but not which tokens share one.
        assert len({*zip(colours.tolist(), expected.tolist(), strict=True)}) == len(set(colours.tolist()))
    assert len(set(colours.tolist())) > 2


def test_the_page_plays_without_a_server_and_its_controls_act(page, explorer):
    page.goto(explorer.address + "#scenario=sphere&speed=-1")  # does not end before the test has paused it
    wait_for(page, "window.explorer?.frame?.index > 5")
    assert value(page, "document.querySelector('#prediction').innerText").startswith("One point")
    page.fill("input[name=beta]", "7")
    page.keyboard.press("Enter")
    wait_for(page, "explorer.model.settings.beta === 7 && explorer.model.later.length === 1")
    wait_for(page, "explorer.frame.time > explorer.model.later[0][0]")
    assert "not looked up" in page.inner_text("#prediction").lower()
    assert not page.locator("#prediction .badge").is_visible()
    page.select_option("select[name=mask]", "causal")
    wait_for(page, "explorer.model.settings.mask === 'causal'")
    page.fill("input[name=n]", "501")
    page.keyboard.press("Enter")
    wait_for(page, "!document.querySelector('#problem').hidden")
    assert "`n` must be at most 500 on this page" in page.inner_text("#problem")
    page.select_option("#scenario", "hardmax")
    wait_for(page, "explorer.model.scenario === 'hardmax' && explorer.frame?.index > 2")
    page.keyboard.press("Escape")
    page.locator("#stage").focus()
    page.keyboard.press("Space")
    wait_for(page, "!explorer.state.plays")
    index = value(page, "explorer.state.frame")
    page.keyboard.press("ArrowLeft")
    wait_for(page, f"explorer.frame.index === {index - 1}")
    assert page.locator("select[name=mlp]").count() == 0
    assert "attnflow explore" in page.inner_text("#absent")
    assert not page.locator("#lines").is_visible()  # of prompts, which this page has not
    assert not page.locator("#ask").is_visible()


MATRICES = """async ([d, seed, given]) => {
  const [wasm, model, words] = await Promise.all(["wasm", "model", "words"].map((name) => import(`./engine/${name}.js`)));
  await wasm.load("engine.wasm");
  const data = await (await fetch("scenarios.json")).json();
  words.setVocabulary(data);
  return given.map((value) => {
    const size = data.vocabulary.value[value.split(":")[0]].size ?? d;
    return model.build({ ...data.hello.catalogue[0].settings, space: "sphere", d: size, seed, value }).heads[0].value;
  });
}"""


def test_every_word_of_a_matrix_gives_the_matrix_of_the_library(page, explorer):
    numbers = {"diagonal": ":2,1,-0.5", "eigenvalues": ":2,1,-0.5", "eigenvalues-random": ":2,1,-0.5", "pair": ":1,0.5"}
    numbers["matrix"] = ":" + ",".join(map(str, range(9)))
    given = [name + numbers.get(name, "") for name in vocabulary.MATRICES.words]
    page.goto(explorer.address)
    found = page.evaluate(MATRICES, [3, 7, given])
    for word, matrix in zip(given, found, strict=True):
        settings = scenarios.Settings(space="sphere", d=len(matrix), seed=7, value=word)
        expected = scenarios.build(settings).flow.heads[0].value_matrix
        np.testing.assert_allclose(matrix, expected, atol=1e-13, err_msg=word)


def test_the_strip_shows_the_end_states_of_the_library(page, explorer):
    page.goto(explorer.address + "#scenario=polytope&n=12&end=3&strip=beta")
    wait_for(page, "document.querySelectorAll('#strip .cells button').length === 8")
    counts = page.locator("#strip .cells small").all_inner_texts()
    betas = [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert counts == [f"{count} cluster{'' if count == 1 else 's'}" for count in map(clusters_at_the_end, betas)]


def clusters_at_the_end(beta):
    setup = af.scenario("polytope", n=12, end=3.0, beta=beta)
    run = af.simulate(setup.flow, setup.tokens, [0.0, 3.0], solver=setup.solver, progress=False)
    distance = FlowMeasurements(setup.flow, setup.solver, Frame(0, 0.0, setup.tokens)).distance
    return int(af.clusters.labels(run.tokens.values[-1], distance).max()) + 1


REFUSALS = """async (cases) => {
  const [wasm, runs, words] = await Promise.all(["wasm", "run", "words"].map((name) => import(`./engine/${name}.js`)));
  await wasm.load("engine.wasm");
  const data = await (await fetch("scenarios.json")).json();
  words.setVocabulary(data);
  return cases.map(([name, changes]) => {
    try { new runs.Run(1, data.hello.catalogue.find((one) => one.name === name), { changes }); return ""; }
    catch (error) { return error instanceof words.Refused ? error.message : `failed: ${error}`; }
  });
}"""
REFUSED = [
    ("sphere", {"rtol": 1e-6, "solver": "rk4"}),
    ("sphere", {"start": "box"}),
    ("sphere", {"value": "diagonal:1,2"}),
    ("hyperplanes", {"d": 3}),
    ("hardmax", {"beta": 2.0}),
    ("polytope", {"normalisation": "sqrt"}),
    ("polytope", {"end": 0.0}),
    ("kuramoto", {"d": 1}),
    ("renyi", {"mask": "window:-1"}),
]


def requested(name, changes):
    setup = scenarios.build(changed_settings(scenarios.get(name).settings, changes))
    return checked_request(setup.flow, setup.tokens, [0.0, 1.0], solver=setup.solver)


def test_settings_that_the_library_refuses_are_refused_with_a_sentence(page, explorer):
    page.goto(explorer.address)
    for (name, changes), sentence in zip(REFUSED, page.evaluate(REFUSALS, REFUSED), strict=True):
        with pytest.raises(InputError):
            requested(name, changes)
        assert sentence.endswith("."), (name, changes, sentence)
        assert not sentence.startswith("failed"), (name, changes, sentence)


def test_a_link_to_a_scenario_that_is_not_offered_says_so(page, explorer):
    page.goto(explorer.address + "#scenario=metastable")
    wait_for(page, "explorer.frame?.index > 2")
    assert "The scenario metastable is not offered here; sphere is shown instead." in page.inner_text("#problem")
    assert "attnflow explore" in page.inner_text("#problem")


def test_a_link_restores_the_state_and_two_runs_are_compared(page, explorer):
    page.goto(explorer.address + "#scenario=renyi&n=30&beta=20&t=2.5&compare=beta:5")
    wait_for(page, "explorer.comparison.model?.settings.beta === 5 && explorer.frame?.time === 2.5")
    assert value(page, "explorer.model.settings.n") == 30
    for name, word in (("attention", "unnormalised"), ("normalisation", "sqrt")):
        page.select_option("#compare-setting", name)
        wait_for(page, f"explorer.comparison.model?.settings.{name} === '{word}'")
    page.click("#compare-close")
    page.click("#move-tokens")
    page.click("#add-token")
    page.locator("#stage").click(position={"x": 300, "y": 100})
    wait_for(page, "explorer.model.placed && explorer.model.settings.n === 31")


def test_all_files_are_small_and_name_no_other_server(explorer):
    files = [path for path in built().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_BYTES
    scripts = [path.read_text("utf-8") for path in files if path.suffix in (".js", ".css")]
    assert not any("https://" in text.replace("https://arxiv.org", "") for text in scripts)


def test_a_frame_of_500_tokens_costs_few_sums_over_pairs(page, explorer):
    """On a quiet machine 30 frames a second and more. Seconds of a busy one mean nothing, so that a frame is compared
    with plain sums in the same page: several steps, each of seven sums, and the panels."""
    page.goto(explorer.address)
    frames, sums = page.evaluate(SPEED)
    assert min(frames) < 100 * min(sums), (frames, sums)


SPEED = """async () => {
  const [wasm, runs, words] = await Promise.all(["wasm", "run", "words"].map((name) => import(`./engine/${name}.js`)));
  await wasm.load("engine.wasm");
  const data = await (await fetch("scenarios.json")).json();
  words.setVocabulary(data);
  const run = new runs.Run(1, data.hello.catalogue.find(({ name }) => name === "sphere"), { changes: { n: 500 } });
  const sumOverPairs = () => {
    const began = performance.now(), x = Float64Array.from({ length: 500 }, (_, i) => Math.sin(i));
    let sum = 0;
    for (const one of x) for (const other of x) sum += Math.exp(one * other);
    return sum > 0 && (performance.now() - began) / 1000;
  };
  const sums = Array.from({ length: 20 }, sumOverPairs);
  return [Array.from({ length: 5 }, () => {
    const began = performance.now(), frames = 20;
    for (let k = 0; k < frames; k++) {
      let frame = null;
      while (!frame) frame = run.compute(1, null, 1);
      run.accept(frame, true);
    }
    run.measured();
    run.attention();
    return (performance.now() - began) / 1000 / frames;
  }), sums];
}"""


def test_the_page_loads_few_files(page, explorer):
    """Tokens are shown soon: the time to the first frame is mostly that of one request after the other."""
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(explorer.address)
    wait_for(page, "window.explorer?.frame")
    assert len(requests) <= 10, requests

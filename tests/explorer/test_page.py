"""The page's own parts in a real browser, without a run: hulls, numbers as words, controls."""

import functools
import http.server
import math
import shutil
import threading

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from attnflow.experiments import vocabulary
from attnflow.experiments.vocabulary import known_words
from attnflow.explorer import PAGE

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser is driven by playwright: pip install playwright"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")

KNOWN = {setting: known_words(setting) for setting in vocabulary.SETTINGS} | {"space": ["sphere", "rescaled"]}
SETTINGS = {
    "space": "sphere", "n": 8, "d": 3, "beta": 1.0, "attention": "softmax", "mask": "full", "heads": 1,
    "query_key": "identity", "value": "identity", "redraw": None, "normalisation": "post", "mlp": None, "kappa": None,
    "start": "sphere", "end": 10.0, "spacing": "linear", "solver": None, "rtol": 1e-8, "seed": 0,
}  # fmt: skip


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {".js": "text/javascript", ".svg": "image/svg+xml"}  # noqa: RUF012

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def page():
    """A page at the modules' address that shows nothing yet."""
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=PAGE))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{served.server_port}/style.css")
        yield page
        chromium.close()
    served.shutdown()
    served.server_close()


def call(page, module, expression, argument=None):
    """What an expression of a module `m` and an argument `a` gives."""
    return page.evaluate(f"async (a) => {{ const m = await import('/{module}'); return {expression}; }}", argument)


def clouds():
    rng = np.random.default_rng(0)
    yield rng.normal(size=(5, 3))
    yield rng.normal(size=(200, 3))
    yield np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), float).reshape(3, 8).T  # flat sides of four corners
    yield rng.normal(size=(9, 3))[rng.integers(0, 9, 120)] + 1e-7 * rng.normal(size=(120, 3))  # tokens that have met
    angles = 2 * np.pi * rng.integers(0, 5, 60) / 5  # many tokens along the edges of a prism
    yield np.column_stack([np.cos(angles), np.sin(angles), rng.uniform(-1, 1, 60)])


@pytest.mark.parametrize("points", list(clouds()))
def test_a_hull_in_space_encloses_what_qhull_says(page, points):
    faces = call(page, "convex_hull.js", "m.solidHull(Float32Array.from(a), a.length / 3)?.map((face) => face.corners)",
                 points.ravel().tolist())  # fmt: skip

    corners = points[np.array(faces)]
    volume = np.linalg.det(corners).sum() / 6

    # Points nearer to a face than 1e-3 of the size are left on it.
    assert volume == pytest.approx(ConvexHull(points, qhull_options="QJ").volume, rel=5e-3)


def test_points_of_a_plane_have_no_hull_in_space_and_a_cube_has_twelve_edges(page):
    flat = np.random.default_rng(0).normal(size=(20, 3)) * [1, 1, 0]
    cube = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), float).reshape(3, 8).T

    assert call(page, "convex_hull.js", "m.solidHull(a, a.length / 3)", flat.ravel().tolist()) is None
    edges = "m.edgesOf(m.solidHull(a, 8)).length"
    assert call(page, "convex_hull.js", edges, cube.ravel().tolist()) == 12


@pytest.mark.parametrize(
    ("time", "is_log", "text"),
    [
        (0, False, "0"),
        (5.25, False, "5.250"),
        (123456, False, "1.23 × 10⁵"),
        (None, True, "0"),
        (math.log(2), True, "2.000"),
        (40 * math.log(10), True, "1.00 × 10⁴⁰"),
        (math.log(9.999) + 40 * math.log(10), True, "1.00 × 10⁴¹"),
    ],
)
def test_times_are_written_with_four_digits_or_a_power_of_ten(page, time, is_log, text):
    assert call(page, "numbers.js", "m.timeText(...a)", [time, is_log]) == text


def test_axes_share_a_scale_unless_extents_differ_much(page):
    assert call(page, "geometry.js", "m.extentsOf(a)", [5, 4, 5]) == [5, 5, 5]
    wide = call(page, "geometry.js", "m.extentsOf(a)", [5, 5, 300])
    assert wide[2] == 300
    assert 5 <= wide[0] == wide[1] < 15


@pytest.fixture
def controls(page):
    page.evaluate(
        """async ([words, settings]) => {
            const { Controls } = await import("/controls.js"), form = document.createElement("form");
            document.body.replaceChildren(form);
            window.told = [];
            window.controls = new Controls(form, words, (change) => window.told.push(change));
            window.controls.show(settings, settings);
            for (const one of document.querySelectorAll("details")) one.open = true;
        }""",
        [KNOWN, SETTINGS],
    )
    return page


def told(page):
    return page.evaluate("window.told")


def test_every_control_has_a_name(controls):
    nameless = controls.evaluate(
        """[...document.querySelectorAll("input, select")]
            .filter((one) => !one.labels?.length && !one.getAttribute("aria-label")).map((one) => one.name)"""
    )
    assert controls.locator("input, select").count() > 20
    assert nameless == []


def test_a_setting_that_needs_numbers_is_sent_with_them(controls):
    controls.select_option("select[name=value]", "diagonal")
    assert told(controls) == []
    assert controls.evaluate("document.activeElement.name") == "value-numbers"

    controls.keyboard.type("2, 1  0.5")
    controls.keyboard.press("Enter")
    controls.select_option("select[name=value]", "goe")

    assert told(controls) == [{"value": "diagonal:2,1,0.5"}, {"value": "goe"}]


def test_masks_can_be_joined_and_optional_settings_removed(controls):
    controls.select_option("select[name=mask]", "typed")
    controls.keyboard.type("causal + window:8")
    controls.keyboard.press("Enter")
    for name, text in (("kappa", "2"), ("kappa", ""), ("n", "")):
        controls.fill(f"input[name={name}]", text)
        controls.keyboard.press("Tab")

    assert told(controls) == [{"mask": "causal+window:8"}, {"kappa": 2}, {"kappa": None}]
    assert controls.input_value("input[name=n]") == "8"


def test_the_fields_show_the_settings_of_the_run(controls):
    changed = {**SETTINGS, "value": "pair:0.5,2", "mask": "causal+window:8", "attention": "hardmax:1e-06", "beta": 9.0}
    controls.evaluate("([now, usual]) => window.controls.show(now, usual)", [changed, SETTINGS])

    assert controls.input_value("select[name=value]") == "pair"
    assert controls.input_value("input[name=value-numbers]") == "0.5, 2"
    assert controls.input_value("input[name=mask-numbers]") == "causal+window:8"
    assert controls.is_disabled("input[name=beta]")
    assert controls.locator(".changed").count() >= 4


def test_choosing_the_sphere_chooses_first_tokens_on_it(controls):
    flat = {**SETTINGS, "space": "rescaled", "start": "box:-5,5"}
    controls.evaluate("([now, usual]) => window.controls.show(now, usual)", [flat, SETTINGS])
    assert controls.is_disabled("select[name=normalisation]")
    controls.select_option("select[name=space]", "sphere")

    lengths = {**flat, "space": "sphere", "normalisation": "pre", "start": "gaussian"}
    controls.evaluate("([now, usual]) => window.controls.show(now, usual)", [lengths, SETTINGS])
    controls.evaluate("document.activeElement.blur()")
    controls.select_option("select[name=normalisation]", "peri")  # has lengths, too
    controls.select_option("select[name=normalisation]", "sqrt")

    assert told(controls) == [
        {"space": "sphere", "start": "sphere"},
        {"normalisation": "peri"},
        {"normalisation": "sqrt", "start": "sphere"},
    ]


@pytest.mark.parametrize("prompt", ["A cat.", ""])
def test_enter_sends_a_prompt_and_an_empty_prompt_is_not_sent(controls, prompt):
    trained = {**SETTINGS, "prompt": "Before.", "layer": 0}
    controls.evaluate("([now, usual]) => window.controls.show(now, usual)", [trained, trained])
    controls.fill("textarea[name=prompt]", prompt)
    controls.keyboard.press("Enter")

    assert told(controls) == ([{"prompt": prompt}] if prompt else [])
    assert controls.input_value("textarea[name=prompt]") == (prompt or "Before.")


def test_tokens_are_interpolated_on_the_sphere_between_two_layers(page):
    frames = """[[1, 0], [0, 1]].map((tokens, index) => ({ run: 1, index, time: index, n: 1, d: 2, tokens }))"""
    paint = f"""(() => {{
        const interpolation = new m.LayerInterpolation(), [first, second] = {frames};
        const still = interpolation.pictureAt(0, first, null, 1000);
        const ways = [0, 400, 799, 801].map((now) => interpolation.pictureAt(now, second, still, 1000));
        const jump = new m.LayerInterpolation().pictureAt(0, {{ ...second, index: 5 }}, first, 1000);
        return [still.fromTime ?? null, ways.map((one) => [one.fromTime ?? null, ...one.tokens]), jump.fromTime ?? null];
    }})()"""
    still, (start, middle, late, end), jump = call(page, "interpolation.js", paint)

    assert (still, jump, end) == (None, None, [None, 0, 1])  # at rest it is the frame itself
    assert start == [0, 1, 0]
    np.testing.assert_allclose(middle, [0, math.sqrt(0.5), math.sqrt(0.5)], atol=1e-6)
    np.testing.assert_allclose(np.hypot(*late[1:]), 1, atol=1e-6)
    assert late[2] > 0.99


STAGE = """async (tokens) => {
    const { Stage } = await import("/stage.js"), root = document.createElement("div");
    root.style.cssText = "width: 400px; height: 300px";
    root.innerHTML = '<canvas id="points"></canvas><canvas id="drawing"></canvas>';
    document.body.replaceChildren(root);
    const names = ["paper", "card", "ink", "grey", "pale", "rule", "accent", "good", "bad", "alone", "weight"];
    const theme = Object.fromEntries(names.map((name) => [name, "#808080"]));
    const stage = new Stage(root, { ...theme, aloneNumbers: [9, 9, 9], paperNumbers: [255, 255, 255] });
    stage.restart({ isSphere: true, settings: { d: 2 }, centres: [] }, []);
    stage.show({ run: 1, index: 0, time: 0, n: tokens.length, d: 2, tokens: Float32Array.from(tokens.flat()), labels: null });
    window.stage = stage;
    return Array.from(stage.seen);
}"""


def test_tokens_are_drawn_and_picked_at_their_positions(page):
    angles = np.array([0.3, 1.9, 2.5, 4.4])
    tokens = np.stack([np.cos(angles), np.sin(angles)], axis=1)

    seen = np.array(page.evaluate(STAGE, tokens.tolist())).reshape(4, 3)

    radius = seen[:, :2] - [200, 150]
    np.testing.assert_allclose(radius / np.linalg.norm(radius, axis=1)[:, None], tokens * [1, -1], atol=1e-5)
    assert [page.evaluate("([x, y]) => stage.nearest(x, y)", place[:2].tolist()) for place in seen] == [0, 1, 2, 3]


def test_zooming_keeps_the_point_under_the_pointer(page):
    page.evaluate(STAGE, [[1, 0], [0, 1], [-1, 0]])
    before, after = page.evaluate(
        """() => {
            const places = () => [stage.seenAt(1), stage.seenAt(2)], before = places();
            stage.zoomBy(3, before[0][0], before[0][1]);
            stage.paint();
            return [before, places()];
        }"""
    )

    np.testing.assert_allclose(after[0][:2], before[0][:2], atol=1e-3)
    apart = np.subtract(after, after[0])[1, :2] / np.subtract(before, before[0])[1, :2]
    np.testing.assert_allclose(apart, 3, rtol=1e-4)

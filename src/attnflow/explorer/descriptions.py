"""What am I looking at: for every scenario the sentence that tells a newcomer what to watch."""

from attnflow.experiments.scenarios import Scenario

PAPERS = {
    "2110.11773": "Sinkformers: transformers with doubly stochastic attention",
    "2305.05465": "The emergence of clusters in self-attention dynamics",
    "2312.10794": "A mathematical perspective on transformers",
    "2407.01602": "Clustering in pure-attention hardmax transformers",
    "2410.06833": "Dynamic metastability in the self-attention model",
    "2411.04990": "Clustering in causal attention masking",
    "2510.22026": "Normalization in attention dynamics",
    "2512.01868": "The mean-field dynamics of transformers",
}

LOOK = {
    "boolean": "Each dot is a token on the line; watch the attention matrix turn into one or two black columns.",
    "polytope": "Tokens are divided by their growth e^t: the hull shrinks to a polygon, and dots stop at its corners.",
    "polytope-3d": "Drag to turn the picture: the hull shrinks to a polyhedron, and dots stop at its corners.",
    "hyperplanes": "Along the eigenvector that grows fastest only two or three values are left: dots line up.",
    "hyperplanes-3d": "Turn the picture until you look along the planes: dots have only two or three heights left.",
    "codim2": "Two directions grow and one does not: in the two that grow dots agree, in the third they stay apart.",
    "mixed": "Seen along x_3 it is the polygon of V = I; that axis, on which tokens spread, has its own scale.",
    "minus-identity": "The cloud shrinks for ever, but to get ten times smaller takes a hundred times longer.",
    "multihead": "Four random heads pull at once; with V = I they still agree on where the crowd is.",
    "sphere": "Every token moves towards those it resembles; small groups form first, then they find each other.",
    "sphere-usa": "Without the softmax's division crowded places pull harder, and the energy can only rise.",
    "kuramoto": "Every token sees all others equally: the crowd falls into step like coupled oscillators.",
    "causal": "Token 1 sees only itself and never moves; all others, one after the other, come to it.",
    "renyi": "Ringed tokens came far from all earlier ones; each holds the crowd around it for a very long time.",
    "staircase": "Time is logarithmic: nothing seems to happen, then two tokens meet and the energy takes a step.",
    "metastable": "The past lies inside the circle: where lines join, two clusters met after a very long wait.",
    "conjecture1": "The first token goes to an end of the line of the leading eigenvector; the second rests elsewhere.",
    "hardmax": "Each token runs straight to the one it scores highest with; who scores highest with itself leads.",
    "noisy": "Attention pulls together, noise spreads apart; lower kappa (more noise) until the crowd dissolves.",
    "layernorm-post": "Only directions are kept: the approach is exponential, the fastest of all schemes here.",
    "layernorm-pre": "Dots show directions; lengths grow with depth and make every further layer count less.",
    "layernorm-mix": "Watch the pace change at t = 3, when the scheme switches.",
    "layernorm-peri": "Both what goes in and what comes out is normalised; directions meet slowly and steadily.",
    "layernorm-ngpt": "No token turns faster than a fixed pace, however much attention it receives.",
    "layernorm-sqrt": "Each layer counts less than the one before, so that the meeting is slower than exponential.",
    "sinkhorn": "Every token gives and receives the same total attention: no one can be looked at by all.",
    "mlp": "A ReLU between attention and token breaks the symmetry: compare with the polytope.",
    "layers": "The same picture as on the sphere, in the jumps a network of that many layers would make.",
    "redrawn": "New random weights at every unit of time; nobody has proved where tokens go.",
    "minilm-heads": "Words that attend to each other come together first; one unit of time is about one layer.",
    "minilm-layers": "Dots show directions and rest at the true state after each layer; "
    "the way between two layers is drawn for the eye only.",
}


def sentences_of(scenario: Scenario) -> list[str]:
    """Two sentences: what happens, and what to watch."""
    return [scenario.sentence, LOOK[scenario.name]] if scenario.name in LOOK else [scenario.sentence]

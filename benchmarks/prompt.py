"""What do a prompt of 512 tokens through 12 layers of width 768, and the heads of one layer, cost a new process?

    python -m benchmarks.prompt [MODEL]

MODEL is anything that `attnflow.models.load` takes; without it a trained ALBERT beside the repository.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ALBERT = Path(__file__).parent.parent.parent / "shared" / "models" / "albert-phonemes"
SECONDS = 30  # of all cores together, compilation included
PEAK = 1e9  # bytes

PROGRAM = """
import json, re, sys, time
from pathlib import Path
import numpy as np
import attnflow as af
began = time.process_time()
model = af.models.load(sys.argv[1])
model.heads(0)
heads = time.process_time() - began
ids = np.arange(model.config.positions) % model.config.vocabulary
run = model.trajectory(ids, progress=False)
seconds = time.process_time() - began
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"heads": heads, "seconds": seconds, "peak": peak, "outcome": run.outcome}))
"""


def measure(model):
    """Seconds of the heads of a layer, of the longest prompt, and the largest memory in bytes."""
    finished = subprocess.run([sys.executable, "-c", PROGRAM, model], check=True, capture_output=True, text=True)
    return json.loads(finished.stdout)


def test_the_longest_prompt_of_an_albert():
    if not ALBERT.is_dir():
        pytest.skip("there is no trained ALBERT beside the repository")
    found = measure(str(ALBERT))

    assert found["outcome"] == "512 tokens through 12 layers of albert-phonemes."
    assert found["seconds"] < SECONDS
    assert found["peak"] < PEAK


if __name__ == "__main__":
    found = measure(sys.argv[1] if len(sys.argv) > 1 else str(ALBERT))
    print(found["outcome"])
    print(f"heads of one layer {found['heads']:.2f} s, with the prompt {found['seconds']:.1f} s of processor time")
    print(f"peak {found['peak'] / 1e6:.0f} MB")

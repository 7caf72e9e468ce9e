"""Files of numbers: what is read, and one sentence for everything that is not."""

import os
import pickle

import numpy as np
import pytest
from tests.helpers.systems import needs_posix

import attnflow as af
from attnflow._common import memory
from attnflow._common.checks import InputError
from attnflow.experiments.number_files import read_numbers
from attnflow.experiments.vocabulary import is_file

TABLE = np.array([[0.5, -1.0], [2.0, 3e-7], [0.1, 0.2]])
TEXTS = {
    "plain.csv": "0.5,-1\n2,3e-7\n0.1,0.2\n",
    "header.csv": "x,y\n0.5,-1\n2,3e-7\n0.1,0.2\n",
    "marked.csv": "\ufeffx,y\r\n0.5,-1\r\n2,3e-7\r\n\r\n0.1,0.2",
    "quoted.csv": '"x, first","y"\n"0.5","-1"\n"2","3e-7"\n"0.1","0.2"\n',
    "commented.csv": "# two coordinates\n0.5,-1\n2,3e-7  # small\n0.1,0.2\n",
    "plain.txt": "0.5 -1\n2\t3e-7\n0.1 0.2\n",
    "header.TXT": "x y\n0.5 -1\n2 3e-7\n0.1 0.2\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_tables_are_read_with_and_without_a_header(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(TEXTS[name].encode())

    assert is_file(str(path))
    np.testing.assert_array_equal(read_numbers(str(path), "start"), TABLE)


def test_binary_files_are_read(tmp_path):
    np.save(tmp_path / "one.npy", TABLE)
    np.savez(tmp_path / "one.npz", tokens=TABLE)
    np.savez_compressed(tmp_path / "two.npz", tokens=TABLE, weights=np.eye(2))

    for word in ("one.npy", "one.npz", "two.npz:tokens"):
        assert is_file(word)
        np.testing.assert_array_equal(read_numbers(str(tmp_path / word), "start"), TABLE)


BAD = {
    "text.csv": (b"0.5,-1\n2,many\n", "line 2 has 'many' in column 2, where a number is expected."),
    "blanks.csv": (
        b"1 0\n0 1\n",
        "line 2 has '0 1' in column 1, where a number is expected; commas stand between numbers.",
    ),
    "ragged.csv": (b"x,y\n0.5,-1\n2\n", "line 3 has another number of columns than the lines before, 1 and not 2."),
    "gap.csv": (b"1,2\n3,\n", "line 2 has '' in column 2"),
    "semicolons.csv": (
        b"1;2\n3;4\n",
        "line 2 has '3;4' in column 1, where a number is expected; commas stand between numbers.",
    ),
    "empty.csv": (b"", "it has no line of numbers with commas between."),
    "header-only.csv": (b"x,y\n", "it has no line of numbers with commas between."),
    "latin.csv": ("größe\n1\n".encode("latin-1"), "it is not a text file in UTF-8."),
    "utf16.csv": ("1,2\n".encode("utf-16"), "it is not a text file in UTF-8."),
    "empty.npy": (b"", "it is damaged, or holds Python objects instead of numbers."),
    "pickle.npy": (pickle.dumps([1, 2]), "it is damaged, or holds Python objects instead of numbers."),
    "zip.npz": (b"PK\x03\x04 nothing more", "it is no whole .npz file."),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_array_is_one_sentence(name, tmp_path):
    content, reason = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(InputError) as caught:
        read_numbers(str(path), "start")
    assert str(caught.value).startswith(f"`start` names the file {path}, which cannot be used: {reason}")
    assert "allow_pickle" not in str(caught.value)


def test_python_objects_words_and_complex_numbers_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", a=np.array([{}, []], dtype=object), allow_pickle=True)
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    np.save(tmp_path / "complex.npy", np.array([1j]))
    half = (tmp_path / "words.npy").read_bytes()[:-4]
    (tmp_path / "half.npy").write_bytes(half)

    for name, reason in {
        "objects.npy": "holds Python objects",
        "objects.npz:a": "holds Python objects",
        "words.npy": "values of type <U1, which are not real numbers",
        "complex.npy": "values of type complex128, which are not real numbers",
        "half.npy": "damaged",
    }.items():
        with pytest.raises(InputError, match=reason) as caught:
            read_numbers(str(tmp_path / name), "value")
        assert "allow_pickle" not in str(caught.value)


def test_an_npz_with_several_arrays_says_their_names(tmp_path):
    np.savez(tmp_path / "two.npz", tokens=TABLE, weights=np.eye(2))

    with pytest.raises(InputError, match=r"it must hold one array, but it holds tokens, weights. Name one, as in two"):
        read_numbers(str(tmp_path / "two.npz"), "start")
    with pytest.raises(InputError, match=r"it has no array 'token'. Its arrays: tokens, weights"):
        read_numbers(f"{tmp_path}/two.npz:token", "start")


@needs_posix
def test_directories_and_devices_are_no_files(tmp_path):
    (tmp_path / "folder.npy").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    os.symlink(tmp_path / "nothing", tmp_path / "link.npy")

    for name, reason in {"folder.npy": "it is not a file", "pipe.csv": "not a file", "link.npy": "no such"}.items():
        with pytest.raises(InputError, match=reason):
            read_numbers(str(tmp_path / name), "start")


@pytest.mark.parametrize("name", ["large.npy", "large.npz", "large.csv"])
def test_a_file_larger_than_memory_is_refused(name, tmp_path, monkeypatch):
    numbers = np.ones((500, 2))
    np.save(tmp_path / "large.npy", numbers)
    np.savez_compressed(tmp_path / "large.npz", numbers)
    np.savetxt(tmp_path / "large.csv", numbers, delimiter=",")
    monkeypatch.setattr(memory, "present_bytes", lambda: 4000.0)

    with pytest.raises(InputError, match=r"of memory, but the machine has 4 kB"):
        read_numbers(str(tmp_path / name), "start")


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2, 2), (0, 2)])
def test_tokens_of_another_shape_are_one_sentence(shape, tmp_path):
    np.save(tmp_path / "tokens.npy", np.ones(shape))

    with pytest.raises(InputError, match=r"`tokens` must have shape"):
        af.scenario("polytope", start=str(tmp_path / "tokens.npy"))

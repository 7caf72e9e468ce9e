"""Binary messages of the explorer have the documented layout and are decoded as they were encoded."""

import struct

import numpy as np

from attnflow.explorer import protocol


def test_frames_are_decoded_as_they_were_encoded():
    tokens = np.random.default_rng(0).normal(size=(5, 3))
    labels = np.arange(5, dtype=np.uint16)

    frame = protocol.read_frame(protocol.frame_bytes(protocol.FrameMessage(3, 7, 1.25, tokens, labels)))

    assert (frame.run, frame.index, frame.time) == (3, 7, 1.25)
    np.testing.assert_array_equal(frame.tokens, tokens.astype(np.float32))
    np.testing.assert_array_equal(frame.labels, labels)


def test_the_header_has_the_documented_layout():
    data = protocol.frame_bytes(protocol.FrameMessage(3, 7, 1.25, np.zeros((5, 2)), None, protocol.FrameFlag.LOG_TIME))

    assert data[:4] == bytes([protocol.MessageKind.FRAME, protocol.VERSION, protocol.FrameFlag.LOG_TIME, 0])
    assert struct.unpack_from("<II", data, 4) == (3, 7)
    assert struct.unpack_from("<d", data, 16) == (1.25,)
    assert struct.unpack_from("<II", data, 24) == (5, 2)
    assert len(data) == 32 + 4 * 10

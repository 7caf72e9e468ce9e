// Binary messages of the server, read into typed arrays. PROTOCOL.md beside the server has the layout.

const FRAME = 1, ATTENTION = 2, FILE = 3, HAS_LABELS = 1, LOG_TIME = 2, HEADER = 32;
export const VERSION = 1;

export function decode(buffer) {
  const view = new DataView(buffer);
  const kind = view.getUint8(0);
  if (view.getUint8(1) !== VERSION) throw new Error("The server has another version. Reload the page.");
  const common = { run: view.getUint32(4, true), index: view.getUint32(8, true), time: view.getFloat64(16, true) };
  if (kind === FRAME) return frame(view, buffer, common);
  if (kind === ATTENTION) return attention(view, buffer, common);
  if (kind === FILE) return file(view, buffer, common);
  throw new Error(`Unknown kind of message: ${kind}`);
}

function frame(view, buffer, common) {
  const flags = view.getUint16(2, true), n = view.getUint32(24, true), d = view.getUint32(28, true);
  const tokens = new Float32Array(buffer, HEADER, n * d);
  const labels = flags & HAS_LABELS ? new Uint16Array(buffer, HEADER + 4 * n * d, n) : null;
  return { type: "frame", ...common, n, d, tokens, labels, isLogTime: Boolean(flags & LOG_TIME) };
}

function file(view, buffer, common) {
  const length = view.getUint16(2, true), name = new TextDecoder().decode(new Uint8Array(buffer, HEADER, length));
  return { type: "file", ...common, name, content: new Uint8Array(buffer, HEADER + length) };
}

function attention(view, buffer, common) {
  const heads = view.getUint16(2, true), side = view.getUint32(24, true), n = view.getUint32(28, true);
  return { type: "attention", ...common, heads, side, n, weights: new Float32Array(buffer, HEADER, side * side) };
}

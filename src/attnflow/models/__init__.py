"""Trained transformers: heads, blocks and prompts from Hugging Face checkpoints, without torch.

    model = attnflow.models.load("minilm")          # or a directory, a GGUF file, or a hub name
    model.heads(layer=0)                            # list of attnflow.Head, for any flow
    model.trajectory("a sentence")                  # tokens over layers: time 0 is the embedding
    model.block(0)                                  # pure functions: attention, norms, MLP, the whole block

Conventions. Tokens are rows of arrays but matrices act on columns, as in the papers: a stored weight W
with bias b takes a token x to W x + b (GPT-2 stores transposes; they are transposed on reading). With k the
width of a head and d that of a token, head h has

    B_h = W_Q^T W_K / sqrt(k)   d x d of rank k: token i scores token j by <x_i, B_h x_j>;
                                in `heads` the factor 1/sqrt(k) is all in the query: Head.query = W_Q / sqrt(k)
    V_h = W_O W_V               d x d of rank k: what papers call V, the output-value map on tokens,
                                not the k x k block; in `heads` kept as factors `output` and `value`

so that softmax at beta = 1 gives the model's own attention, except for the parts that a `Head` leaves out: biases
(see `head_weights`), rotary positions (B_h is then the form between tokens at the same position), and in some families
those that `left_out_of_heads` names. Scales other than 1/sqrt(k) are those of the family.

In a "pre" model (GPT-2, Llama) heads read N(x) = g * C x / rms(C x) + s, with gain g, shift s, and C the projector
I - 1 1^T / d that centres (LayerNorm), or C = I and s = 0 (RMSNorm). Gain and centring are part of the head: in `heads`
W_Q, W_K and W_V stand for W_Q diag(g) C and so on, and act on x / rms(C x), tokens of length sqrt(d). On the unit
sphere the model's temperature is thus beta = d. The constants W s are biases, which a `Head` leaves out.
`heads(layer, folded=False)` gives the matrices as stored, for the output of the norm, `Block.attention_input`.
In a "post" model (BERT, ALBERT) heads read the residual stream itself, and nothing is folded.
"""

from attnflow.models.checkpoints import load_checkpoints
from attnflow.models.conversion import convert
from attnflow.models.head_weights import HeadWeights
from attnflow.models.loading import from_arrays, load
from attnflow.models.transformer import Model

__all__ = ["HeadWeights", "Model", "convert", "from_arrays", "load", "load_checkpoints"]


def __dir__() -> list[str]:
    return __all__

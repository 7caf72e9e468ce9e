"""Trained transformers: heads, blocks and prompts from Hugging Face checkpoints, without torch.

    model = attnflow.models.load("minilm")          # or a directory, or a hub name
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
(see `head_weights`), norms, and rotary positions (B_h is then the form between tokens at the same position).
In a "pre" model (GPT-2, Llama) heads read normalised tokens, `Block.attention_input`.
"""

from attnflow.models.transformer import HeadWeights, Model, load

__all__ = ["HeadWeights", "Model", "load"]

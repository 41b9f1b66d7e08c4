"""Bart of the transformers library in half precision, small and with random weights: `examples/bart.py:build`.

In half precision each encoder layer looks for overflowed activations and clamps them: a branch on a tensor, one graph
break a layer.
"""

import torch
from transformers import BartConfig, BartModel


def build():
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=128,
        d_model=64,
        encoder_layers=4,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=64,
        use_cache=False,
    )
    model = BartModel(config).half().eval().requires_grad_(False)
    ids = torch.randint(3, 128, (2, 9))
    return model, [((), {"input_ids": ids, "decoder_input_ids": ids})]

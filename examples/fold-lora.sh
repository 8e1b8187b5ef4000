#!/bin/sh
# A low-rank adapter folded into the weights that it was trained for, so that a server without adapters can
# run the model (LoRA, arXiv:2106.09685). With kvctl on the path,
#
#     sh fold-lora.sh
#
# makes a small model and an adapter as PEFT saves them, and folds it in. Of your own the line is
#
#     kvctl merge lora ADAPTER/ --base MODEL/ --out MERGED/
#
# W becomes W + scale * B A for each pair lora_A, lora_B; scale is lora_alpha / r of adapter_config.json,
# or what --scale says. Keys without a pair are those of the base. An adapter of another model is an error
# that names the keys. Nothing is held in memory but a block of rows.
set -eu

command -v kvctl >/dev/null || {
    echo "fold-lora: there is no kvctl on the path" >&2
    exit 4
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# A model of two layers, and an adapter of rank 1 for one of them; alpha is 2, so the scale is 2.
kvctl -q -c '
    init "layers.0.q_proj.weight" ones(2,3)
    init "layers.0.norm.weight" ones(3)
    save model.safetensors'
mkdir adapter
kvctl -q -c '
    init "base_model.model.layers.0.q_proj.lora_A.weight" array([[1, 2, 3]])
    init "base_model.model.layers.0.q_proj.lora_B.weight" array([[1], [-1]])
    save adapter/adapter_model.safetensors'
echo '{"peft_type": "LORA", "r": 1, "lora_alpha": 2}' >adapter/adapter_config.json

kvctl merge lora adapter/ --base model.safetensors --out merged.safetensors
kvctl -c 'print @merged.safetensors#layers.0.q_proj.weight' # 1 + 2 * B A

# The same number from the definition, and the keys that nobody trained as they were.
kvctl -q -c '
    B = @adapter/#base_model.model.layers.0.q_proj.lora_B.weight
    A = @adapter/#base_model.model.layers.0.q_proj.lora_A.weight
    W = @model.safetensors#layers.0.q_proj.weight
    assert @merged.safetensors#layers.0.q_proj.weight == W + 2 * dot(B, A)'
kvctl diff model.safetensors merged.safetensors '*norm*'

"""``python -m layernorm.implementations`` where PyTorch is installed."""

import json

from test_implementations import run


def test_pytorch_is_compared():
    begun, found = map(json.loads, run("--json", "--inputs=0:1,1000000:1").stdout.splitlines())
    assert begun == {"torch": True} and found["torch"]
    for shape in found["shapes"]:
        torch = shape["packages"][2]
        assert torch["package"] == "torch"
        assert torch["errors"][0]["units"] < 16 and (torch["errors"][1]["units"] or 1e9) > 1e4

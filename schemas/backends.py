"""Names of inference engines: what inputs call them, and the one name that the program uses."""

from typing import Final

#: Lower-case name -> engine. Frameworks that run an engine of another name count as that engine; the name as
#: given stays in ``backend_name``. Read from InferenceX's framework keys and AIConfigurator's backends.
ENGINES: Final = {
    "trt": "trtllm", "trtllm": "trtllm", "trt-llm": "trtllm", "tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm",
    "dynamo-trt": "trtllm", "dynamo-trtllm": "trtllm",
    "vllm": "vllm", "dynamo-vllm": "vllm", "vllm-disagg": "vllm",
    "sglang": "sglang", "sgl": "sglang", "dynamo-sglang": "sglang", "mori-sglang": "sglang",
    "sglang-disagg": "sglang",
    "atom": "atom", "atom-disagg": "atom",
}  # fmt: skip

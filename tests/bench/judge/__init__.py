"""The mapping judged by vLLM's own scheduler on a virtual clock."""

"""Hugging Face config.json -> ``ModelSpec``: parameters, stored bytes, KV cache and context of a model.

``raw`` reads fields, ``families`` knows each architecture, ``attention`` and ``feed_forward`` its layers,
``quantization`` the stored formats, ``reader`` puts them together.
"""

from transforms.model_config.reader import read_model_config

__all__ = ["read_model_config"]

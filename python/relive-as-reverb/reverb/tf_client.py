"""`TFClient`, which needs TensorFlow."""

from relive.tf_client import TFClient as TFClient

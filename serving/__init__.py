"""An embedded server that speaks TensorFlow Serving's protocol, and its client."""

"""What is computed: equations on numbers and pure functions on frames. Nothing here opens a file."""

"""A second opinion on the closed loop: its exact solution and a simulation, as test tools."""

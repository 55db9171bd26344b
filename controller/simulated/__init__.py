"""A user's controller in simulated time: its event loop has the simulation's clock, its calls are accounted for."""

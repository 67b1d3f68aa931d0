# SPDX-License-Identifier: Apache-2.0
"""A whole cluster and its users on one virtual clock, from one seed: :func:`simulate`. See docs/guides/simulation.md."""

from sprocketmq.testing.simulation.draws import DrawError
from sprocketmq.testing.simulation.loop import SimulationError
from sprocketmq.testing.simulation.weather import CALM, KINDS, Weather
from sprocketmq.testing.simulation.world import Here, Program, World, simulate

__all__ = ["CALM", "KINDS", "DrawError", "Here", "Program", "SimulationError", "Weather", "World", "simulate"]

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from sprocketmq.cli.demo.flights import ALL_ROWS, FlightBody, Flights, load_flights
from sprocketmq.errors import ConfigurationError


@pytest.fixture(scope="module")
def flights() -> Flights:
    return load_flights()


def test_the_whole_data_set_is_there(flights: Flights) -> None:
    assert len(flights) == ALL_ROWS
    assert len(flights.bad_rows) == 8_255
    assert flights.table["tailnum"].isna().sum() == 2_512


def test_every_body_decodes_to_its_row(flights: Flights) -> None:
    few = Flights(flights.table.iloc[800:900])
    decoded = [msgspec.json.decode(body, type=FlightBody) for body in few.bodies()]
    assert [flight.row for flight in decoded] == list(range(800, 900))
    table = flights.table
    for flight in decoded:
        row = table.loc[flight.row]
        assert (flight.carrier, flight.flight, flight.hour) == (row["carrier"], row["flight"], row["hour"])
        assert (flight.dep_time is None) == (flight.row in flights.bad_rows)
        if flight.dep_time is not None:
            assert flight.dep_delay == row["dep_delay"]


def test_a_flight_without_tail_number_is_sharded_by_carrier_and_flight(flights: Flights) -> None:
    row = int(flights.table.index[flights.table["tailnum"].isna()][0])
    assert flights.sharding_keys[row] == f"{flights.table.at[row, 'carrier']}{flights.table.at[row, 'flight']}"
    assert flights.sharding_keys[0] == "N14228"


def test_the_means_count_every_flight_that_left_once(flights: Flights) -> None:
    means = flights.mean_delays
    assert int(means["flights"].sum()) == ALL_ROWS - 8_255
    left = flights.table["dep_delay"].dropna()
    assert (means["mean_dep_delay"] * means["flights"]).sum() == pytest.approx(left.sum())


@pytest.mark.parametrize("rows", [0, -1, ALL_ROWS + 1])
def test_a_number_of_rows_that_does_not_exist_is_refused(rows: int) -> None:
    with pytest.raises(ConfigurationError, match="1 to 336776 are allowed"):
        load_flights(rows)

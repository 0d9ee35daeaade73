"""Pictures of runs: `figures` are pure functions from data to plotly figures; `explore` and `report` use them."""

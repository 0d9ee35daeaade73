"""The protocol explored over the whole grid of settings: nothing goes wrong, and everything can come to its end."""

from estream_lab.experts.exploration import endless
from tools.protocol_table import explored, grid


def test_no_setting_of_the_grid_has_trouble() -> None:
    transitions = 0
    for claim, setting, found, _ in explored():
        assert found.trouble == {}, f"{claim}: {setting}"
        assert found.ends > 0 and endless(found) == 0
        transitions += found.transitions
    assert transitions > 500_000  # a grid that became small by mistake proves little


def test_the_grid_holds_what_it_claims() -> None:
    settings = [setting for _, setting in grid()]
    assert any(setting.experts % setting.group_size for setting in settings)
    assert any(setting.groups % setting.banks for setting in settings)
    refills = [setting for claim, setting in grid() if claim.endswith("many refills")]
    assert all(setting.groups >= 3 * setting.banks + 1 for setting in refills)
    assert any(setting.stop and setting.fail and setting.policies is None for setting in settings)

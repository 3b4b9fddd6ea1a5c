"""What image and text do together: F_syn, its states, what it is compared with, and the exact value."""

from pipeline.synergy.agreement import agreements, rank_agreement
from pipeline.synergy.fsyn import Synergy, count_states, explain_many, fsyn
from pipeline.synergy.orders import orders, tie_breaks, tie_share
from pipeline.synergy.sii import rank_groups, sii
from pipeline.synergy.states import Game

__all__ = [
    "Game",
    "Synergy",
    "agreements",
    "count_states",
    "explain_many",
    "fsyn",
    "orders",
    "rank_agreement",
    "rank_groups",
    "sii",
    "tie_breaks",
    "tie_share",
]

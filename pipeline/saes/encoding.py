"""The codes of many activations as compressed sparse rows."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from tqdm import tqdm

from pipeline.models.device import inference
from pipeline.saes.numerics import threads_for
from pipeline.saes.sae import BLOCK, Sae


def encode_csr(
    sae: Sae,
    activations: ArrayLike,
    *,
    device: str = "cpu",
    precision: str = "float32",
    tf32: bool = False,
    threads: int | None = None,
    progress: bool = False,
) -> csr_array:
    """Return codes (N, D) float32 of activations (N, d), which may be memory-mapped.

    Only codes above 0 are stored, by ascending latent; memory is bounded by one block of rows and the
    result. A row has the same codes whatever stands beside it. Raises AssayError as `Sae.encode`.
    """
    array = activations if isinstance(activations, np.ndarray) else np.asarray(activations)
    counts, latents, values = [np.zeros(1, dtype=np.int64)], [], []
    used = threads_for(BLOCK * sae.dictionary_size, threads)
    with inference(device, precision=precision, tf32=tf32, threads=used) as target:
        blocks = sae.to(target).blocks(array)
        total = -(-len(array) // BLOCK)
        for codes, _ in tqdm(blocks, desc="codes", unit="block", total=total, disable=not progress):
            rows, columns = torch.nonzero(codes > 0, as_tuple=True)
            counts.append(torch.bincount(rows, minlength=len(codes)).cpu().numpy())
            latents.append(columns.cpu().numpy().astype(np.int32))
            values.append(codes[rows, columns].cpu().numpy())
    indptr = np.concatenate(counts).cumsum()
    empty = (np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
    indices = np.concatenate([empty[0], *latents])
    shape = (len(array), sae.dictionary_size)
    return csr_array((np.concatenate([empty[1], *values]), indices, indptr), shape=shape)

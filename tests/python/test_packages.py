"""GT tensors in other packages: einops, NumPy functions, scikit-learn, matplotlib, tqdm, TensorBoard; each if installed."""

import sys

import numpy as np
import pytest
import torch

import gt
from nn_support import close, numbers
from support import check, raises, to_gt

# ---- einops ---------------------------------------------------------------------------------------------------


@pytest.fixture
def einops():
    return pytest.importorskip("einops")


def both(function, *shapes):
    """function(*tensors) and its gradients in both libraries."""
    results = []
    for library in (gt, torch):
        inputs = [library.tensor(numbers(*shape, seed=k)).requires_grad_() for k, shape in enumerate(shapes)]
        out = function(*inputs)
        assert isinstance(out, library.Tensor)
        (out * out).sum().backward()
        results.append([out, *(x.grad for x in inputs)])
    for mine, its in zip(*results):
        close(mine, its)


def test_einops_functions(einops):
    both(lambda x: einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3), (2, 3, 4, 6))
    both(lambda x: einops.rearrange(x, "a ... c -> c ... a"), (2, 3, 4, 5))
    both(lambda x: einops.repeat(x, "h w -> b h (w k)", b=3, k=2), (2, 4))
    for reduction in ("mean", "sum", "max", "min", "prod"):
        both(lambda x: einops.reduce(x, "b (h 2) w -> b h", reduction), (2, 4, 3))
    both(lambda x, y: einops.einsum(x, y, "b i j, b j k -> b i k"), (2, 3, 4), (2, 4, 5))
    both(lambda x, y: einops.pack([x, y], "b *")[0], (2, 3), (2, 4, 5))
    both(lambda x: einops.unpack(x, [(3,), (2, 2)], "b *")[1], (2, 7))
    both(lambda x, y: einops.rearrange([x, y], "n b c -> (n b) c"), (2, 3), (2, 3))
    assert einops.parse_shape(gt.ones(2, 3), "a b") == {"a": 2, "b": 3}
    assert einops.asnumpy(gt.ones(2)).tolist() == [1, 1]
    assert einops.reduce(gt.tensor([[True, False]]), "a b -> a", "any").tolist() == [True]


def test_einops_layers(einops):
    from einops.layers.gt import EinMix, Rearrange, Reduce
    from einops.layers.torch import EinMix as TheirMix

    x = gt.ones(2, 3, 4, 4)
    model = gt.nn.Sequential(Rearrange("b c h w -> b c (h w)"), Reduce("b c n -> b c", "mean"), gt.nn.Linear(3, 5))
    assert model(x).shape == (2, 5) and "Rearrange('b c h w -> b c (h w)')" in repr(model)
    options = {"weight_shape": "h i o", "bias_shape": "h o", "h": 2, "i": 3, "o": 4}
    ours, theirs = EinMix("b (h i) -> b (h o)", **options), TheirMix("b (h i) -> b (h o)", **options)
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    values = numbers(5, 6)
    close(ours(gt.tensor(values)), theirs(torch.tensor(values)))


@pytest.mark.parametrize("order", ["import gt, einops", "import einops, gt", "import gt, sys; assert 'einops' not in sys.modules"])
def test_einops_before_or_after_gt(einops, programs, order):
    output = programs.run(f"""
        {order}
        import einops
        print(einops.rearrange(gt.arange(6), '(a b) -> b a', a=2).tolist())
    """)
    assert output.strip() == "[[0, 3], [1, 4], [2, 5]]"


def test_nvidia_libraries_on_the_path_are_told_to_the_engine(programs, tmp_path):
    (tmp_path / "nvidia" / "cudnn" / "lib").mkdir(parents=True)
    program = f"""
        import os, sys
        sys.path.append({str(tmp_path)!r})
        import gt
        print(os.environ.get("GT_CUDA_PATH"))
    """
    assert str(tmp_path / "nvidia/cudnn/lib") in programs.run(program).strip().split(":")
    assert programs.run(program, GT_CUDA_PATH="/here").strip() == "/here"


# ---- NumPy ----------------------------------------------------------------------------------------------------


def test_numpy_functions():
    x = numbers(4, 5)
    t = gt.tensor(x)
    assert np.array_equal(np.asarray(t), x) and np.asarray(t, dtype=np.float64).dtype == np.float64
    for function in (np.mean, np.sum, np.std, np.argmax, np.max, np.median, np.percentile, np.sort, np.concatenate, np.stack):
        options = (50,) if function is np.percentile else ()
        assert np.allclose(np.asarray(function(t, *options)), function(x, *options)), function.__name__
    assert np.allclose(np.mean(t, axis=0), x.mean(0))
    assert np.allclose(np.exp(t), np.exp(x)) and np.allclose(np.dot(np.asarray(t).T, t), x.T @ x, atol=1e-5)
    assert np.allclose([t.mean().item(), float(t[0, 0])], [x.mean(), x[0, 0]])
    assert np.array([t[0, 0].item(), t[0, 1].item()]).shape == (2,)
    assert np.isclose(t[0, 0], x[0, 0]) and np.where(np.asarray(t) > 0)[0].shape == np.where(x > 0)[0].shape
    check(gt.tensor(np.float32(2.5)), torch.tensor(np.float32(2.5)))


class Accuracy:
    """A metric as torchmetrics computes them: state in NumPy, updates with tensors."""

    def __init__(self):
        self.right = np.zeros((), np.int64)
        self.matrix = np.zeros((3, 3), np.int64)

    def update(self, predictions, targets):
        predictions, targets = np.asarray(predictions.argmax(-1)), np.asarray(targets)
        self.right += np.sum(predictions == targets)
        np.add.at(self.matrix, (targets, predictions), 1)


def test_metrics_in_numpy():
    metric = Accuracy()
    metric.update(gt.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1]]), gt.tensor([1, 2]))
    assert metric.right == 1 and metric.matrix[2, 0] == 1 == metric.matrix[1, 1]


# ---- scikit-learn, matplotlib, tqdm ---------------------------------------------------------------------------


def test_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import accuracy_score, confusion_matrix, roc_auc_score
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x = numbers(60, 4)
    y = x @ np.array([1.0, -2.0, 0.5, 3.0], np.float32) + 1
    tx, ty = gt.tensor(x), gt.tensor(y)
    model = LinearRegression().fit(tx, ty)
    assert np.allclose(model.coef_, [1, -2, 0.5, 3], atol=1e-3)
    assert np.allclose(model.predict(tx), y, atol=1e-3)
    assert np.allclose(StandardScaler().fit_transform(tx).mean(0), 0, atol=1e-5)
    assert PCA(2).fit(tx).transform(tx).shape == (60, 2)
    assert accuracy_score(gt.tensor([0, 1, 1]), gt.tensor([0, 1, 0])) == pytest.approx(2 / 3)
    assert confusion_matrix(gt.tensor([0, 1]), gt.tensor([1, 1])).tolist() == [[0, 1], [0, 1]]
    assert roc_auc_score(gt.tensor([0, 0, 1]), gt.tensor([0.1, 0.4, 0.8])) == 1
    train, test = train_test_split(np.asarray(tx), test_size=0.25, random_state=0)
    assert train.shape == (45, 4) and test.shape == (15, 4)


def test_matplotlib():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    x = gt.linspace(0, 1, 20)
    (line,) = axes.plot(x, x * x)
    assert np.allclose(line.get_ydata(), np.linspace(0, 1, 20) ** 2)
    axes.scatter(x, x.sin(), c=x)
    axes.imshow(gt.rand(4, 4, 3))
    counts, _, _ = axes.hist(gt.arange(10.0))
    assert counts.sum() == 10
    axes.fill_between(x, x - 1, x + 1)
    axes.bar(gt.arange(3), gt.tensor([1.0, 2.0, 3.0]))
    figure.canvas.draw()
    pyplot.close(figure)


def test_tqdm():
    tqdm = pytest.importorskip("tqdm")
    loader = gt.utils.data.DataLoader(gt.utils.data.TensorDataset(gt.arange(10)), batch_size=4)
    bar = tqdm.tqdm(loader, file=open("/dev/null", "w"))
    assert bar.total == 3
    for (batch,) in bar:
        bar.set_postfix(loss=batch.float().mean())
    assert "loss=tensor(8.5000)" in str(bar)
    assert [row.tolist() for row in tqdm.tqdm(gt.arange(3), disable=True)] == [0, 1, 2]


# ---- gt.utils -------------------------------------------------------------------------------------------------


def test_dlpack():
    from gt.utils.dlpack import from_dlpack, to_dlpack

    assert torch.from_dlpack(to_dlpack(gt.arange(3))).tolist() == [0, 1, 2]
    assert from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1, 1]


def events(folder):
    """What TensorBoard reads in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from gt.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard import SummaryWriter as Theirs

    values = numbers(50)
    image = numbers(3, 4, 5) * 0.3
    for library, kind, name in ((gt, SummaryWriter, "ours"), (torch, Theirs, "theirs")):
        with kind(tmp_path / name) as writer:
            for step in range(3):
                writer.add_scalar("loss", library.tensor(1.5 * step), step, walltime=step)
            writer.add_scalar("new", 2.5, 7, new_style=True)
            writer.add_scalars("two", {"a": 1, "b": library.tensor([2.0])}, 1)
            writer.add_histogram("weights", library.tensor(values), 2)
            writer.add_histogram("few", library.tensor(values), 2, bins=5)
            writer.add_text("note", "**text**", 1)
            writer.add_image("image", library.tensor(image), 1)
            writer.add_images("images", library.tensor(np.stack([image] * 3)), 1)
            assert str(writer.get_logdir()) == str(tmp_path / name)
    ours, theirs = events(tmp_path / "ours"), events(tmp_path / "theirs")
    assert ours.Scalars("loss") == theirs.Scalars("loss")
    assert ours.Tags() == theirs.Tags()
    for tag in ("weights", "few"):
        mine, its = ours.Histograms(tag)[0].histogram_value, theirs.Histograms(tag)[0].histogram_value
        assert mine.bucket == its.bucket and mine.bucket_limit == pytest.approx(its.bucket_limit)
        assert (mine.num, mine.min, mine.max) == (its.num, pytest.approx(its.min), pytest.approx(its.max))
    for tag in ("image", "images"):
        mine, its = ours.Images(tag)[0], theirs.Images(tag)[0]
        assert (mine.width, mine.height) == (its.width, its.height)
        assert np.array_equal(pixels(mine), pixels(its)), tag
    assert ours.Tensors("note/text_summary")[0].tensor_proto == theirs.Tensors("note/text_summary")[0].tensor_proto
    assert events(tmp_path / "ours" / "two_b").Scalars("two")[0].value == 2


def pixels(event):
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_more_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from gt.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path / "run", purge_step=3)
    writer.add_hparams({"lr": 0.1, "name": "x", "flag": True, "none": None}, {"accuracy": gt.tensor(0.5)}, run_name="first")
    raises(AssertionError, lambda: writer.add_scalar("x", gt.ones(2)), "one element")
    raises(ValueError, lambda: writer.add_histogram("x", gt.ones(0)), "no element")
    raises(NotImplementedError, lambda: writer.add_graph(None), "add_graph")
    raises(AttributeError, lambda: writer.nonsense)
    if pytest.importorskip("matplotlib"):
        from matplotlib import figure

        drawn = figure.Figure(figsize=(2, 1), dpi=50)
        drawn.subplots().plot(gt.arange(3))
        writer.add_figure("plot", drawn, 1)
    writer.close()
    writer.add_scalar("again", 1, 4)
    writer.close()
    assert events(tmp_path / "run" / "first").Scalars("accuracy")[0].value == 0.5
    assert events(tmp_path / "run").Images("plot")[0].width == 100


def test_without_tensorboard(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "gt.utils.tensorboard", raising=False)
    if "tensorboard" in vars(gt.utils):
        monkeypatch.delattr(gt.utils, "tensorboard")
    raises(ImportError, lambda: gt.utils.tensorboard, "pip install tensorboard")


def test_torch_tensors_and_gt_tensors_meet_in_numpy():
    x = torch.ones(3)
    assert np.allclose(np.asarray(to_gt(x)) + np.asarray(x), 2)

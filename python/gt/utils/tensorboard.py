"""SummaryWriter: event files for TensorBoard, as in torch.utils.tensorboard. The tensorboard package writes them."""

import io
import os
import socket
import time

import numpy as np

try:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError('gt.utils.tensorboard needs the tensorboard package: pip install tensorboard') from error


def _array(value):
    """A tensor, number or list as an array."""
    return np.asarray(value.detach() if hasattr(value, 'detach') else value)


def _default_bins():
    """TensorFlow's buckets: limits that grow by a tenth."""
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return [-limit for limit in reversed(limits)] + [0] + limits


def _histogram(values, bins, max_bins):
    if values.size == 0:
        raise ValueError('The input has no element.')
    values = values.reshape(-1).astype(np.float64)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1:step], limits[-1])
    used = np.nonzero(counts)[0]
    first, last = (used[0], used[-1]) if len(used) else (0, len(counts) - 1)
    # TensorBoard knows only right ends: an empty bucket in front carries the left end of the first one.
    counts = np.append([0], counts[first:last + 1])
    return HistogramProto(min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
                          sum_squares=values.dot(values), bucket_limit=limits[first:last + 2].tolist(),
                          bucket=counts.tolist())


def _pixels(image, dataformats):
    """An image as height x width x channels of uint8."""
    image, dataformats = _array(image), dataformats.upper()
    if len(dataformats) != image.ndim or set(dataformats) - set('NHWC'):
        raise AssertionError(f'size of input tensor and input format are different. tensor shape: {image.shape}, '
                             f'input_format: {dataformats}')
    scale = 1 if image.dtype == np.uint8 else 255
    order = [dataformats.index(letter) for letter in 'NHWC' if letter in dataformats]
    image = image.transpose(order)
    if 'C' not in dataformats:
        image = image[..., None]
    if 'N' in dataformats:  # side by side in a grid
        count = len(image)
        columns = min(count, 8)
        rows = -(-count // columns)
        grid = np.zeros((rows * columns, *image.shape[1:]), image.dtype)
        grid[:count] = image
        _, height, width, channels = grid.shape
        image = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2).reshape(
            rows * height, columns * width, channels)
    if image.shape[-1] == 1:
        image = np.repeat(image, 3, axis=-1)
    return (image.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def _image(pixels):
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('images in TensorBoard need the pillow package: pip install pillow') from error
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format='PNG')
    height, width, channels = pixels.shape
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue())


class SummaryWriter:
    """Writes scalars, histograms, images, figures, text and hyperparameters to a folder that TensorBoard shows.

    log_dir: the folder; by default runs/TIME_HOST and the comment. purge_step: forget what an earlier run wrote from this
    step on. max_queue, flush_secs: when events are written to disk. filename_suffix: of the event file.

        writer = SummaryWriter('runs/first')
        writer.add_scalar('loss', loss, step)
        writer.close()
    """

    def __init__(self, log_dir=None, comment='', purge_step=None, max_queue=10, flush_secs=120, filename_suffix=''):
        if not log_dir:
            log_dir = os.path.join('runs', time.strftime('%b%d_%H-%M-%S') + f'_{socket.gethostname()}{comment}')
        self.log_dir = str(log_dir)
        self._options = max_queue, flush_secs, filename_suffix
        self._writers, self._bins = {}, None
        if purge_step is not None:
            self._add(Event(step=purge_step, file_version='brain.Event:2'))
            self._add(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))
        else:
            self._writer(self.log_dir)

    def _writer(self, folder):
        if folder not in self._writers:
            self._writers[folder] = EventFileWriter(folder, *self._options)
        return self._writers[folder]

    def _add(self, event, step=None, walltime=None, folder=None):
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._writer(folder or self.log_dir).add_event(event)

    def _add_value(self, step, walltime, folder=None, **value):
        self._add(Event(summary=Summary(value=[Summary.Value(**value)])), step, walltime, folder)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number, or a tensor with one element; waits for it."""
        value = self._number(scalar_value)
        if not new_style:
            self._add_value(global_step, walltime, tag=tag, simple_value=value)
            return
        tensor = (TensorProto(double_val=[value], dtype='DT_DOUBLE') if double_precision
                  else TensorProto(float_val=[value], dtype='DT_FLOAT'))
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name='scalars'))
        self._add_value(global_step, walltime, tag=tag, tensor=tensor, metadata=metadata)

    @staticmethod
    def _number(value):
        value = _array(value).squeeze()
        if value.ndim:
            raise AssertionError(f'Tensor should contain one element (0 dimensions). Was given size: {value.size} and '
                                 f'{value.ndim} dimensions.')
        return float(value)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one plot, by name."""
        for tag, value in tag_scalar_dict.items():
            folder = f'{self.log_dir}/{main_tag.replace("/", "_")}_{tag}'
            self._add_value(global_step, walltime, folder, tag=main_tag, simple_value=self._number(value))

    def add_histogram(self, tag, values, global_step=None, bins='tensorflow', walltime=None, max_bins=None):
        """How the elements of a tensor are distributed."""
        if bins == 'tensorflow':
            self._bins = self._bins or _default_bins()
            bins = self._bins
        self._add_value(global_step, walltime, tag=tag, histo=_histogram(_array(values), bins, max_bins))

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats='CHW'):
        """An image: uint8, or floats from 0 to 1."""
        self._add_value(global_step, walltime, tag=tag, image=_image(_pixels(img_tensor, dataformats)))

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats='NCHW'):
        """Several images side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, or a list of them."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        figures = figure if isinstance(figure, list) else [figure]
        drawn = []
        for each in figures:
            canvas = FigureCanvasAgg(each)
            canvas.draw()
            drawn.append(np.asarray(canvas.buffer_rgba())[..., :3])
            if close:
                from matplotlib import pyplot
                pyplot.close(each)
        if isinstance(figure, list):
            self.add_image(tag, np.stack(drawn), global_step, walltime, 'NHWC')
        else:
            self.add_image(tag, drawn[0], global_step, walltime, 'HWC')

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, in Markdown."""
        from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData
        content = TextPluginData(version=0).SerializeToString()
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name='text', content=content))
        tensor = TensorProto(dtype='DT_STRING', string_val=[text_string.encode()],
                             tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
        self._add_value(global_step, walltime, tag=f'{tag}/text_summary', tensor=tensor, metadata=metadata)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Hyperparameters of this run, and the metrics that it reached."""
        if hparam_domain_discrete:
            raise NotImplementedError('add_hparams: hparam_domain_discrete is not supported')
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError('hparam_dict and metric_dict should be dictionary.')
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        for summary in _hparams(hparam_dict, metric_dict):
            self._add(Event(summary=summary), global_step, folder=folder)
        for tag, value in metric_dict.items():
            self._add_value(global_step, None, folder, tag=tag, simple_value=self._number(value))

    def __getattr__(self, name):
        if name.startswith('add_'):
            raise NotImplementedError(f'SummaryWriter.{name} is not supported by gt.utils.tensorboard')
        raise AttributeError(f"'SummaryWriter' object has no attribute '{name}'")

    def flush(self):
        """Write all events to disk."""
        for writer in self._writers.values():
            writer.flush()

    def close(self):
        """Write all events to disk and close the files; the next event opens new ones."""
        for writer in self._writers.values():
            writer.flush()
            writer.close()
        self._writers = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _hparams(values, metrics):
    """The three summaries of TensorBoard's hparams plug-in: the experiment, the start and the end of the session."""
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.api_pb2 import Experiment, HParamInfo, MetricInfo, MetricName, Status
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    def summary(tag, **content):
        data = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content).SerializeToString()
        plugin = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME, content=data)
        return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))])
    start, infos = SessionStartInfo(), []
    for name, value in values.items():
        if isinstance(value, bool):
            start.hparams[name].bool_value, kind = value, 'DATA_TYPE_BOOL'
        elif isinstance(value, str):
            start.hparams[name].string_value, kind = value, 'DATA_TYPE_STRING'
        elif value is not None:
            start.hparams[name].number_value, kind = SummaryWriter._number(value), 'DATA_TYPE_FLOAT64'
        else:
            continue
        infos.append(HParamInfo(name=name, type=kind))
    experiment = Experiment(hparam_infos=infos, metric_infos=[MetricInfo(name=MetricName(tag=tag)) for tag in metrics])
    return (summary(metadata.EXPERIMENT_TAG, experiment=experiment),
            summary(metadata.SESSION_START_INFO_TAG, session_start_info=start),
            summary(metadata.SESSION_END_INFO_TAG,
                    session_end_info=SessionEndInfo(status=Status.Value('STATUS_SUCCESS'))))

"""What the official archives of CIFAR-10 and CIFAR-100 contain."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CIFAR10", "CIFAR100", "CifarLayout"]


@dataclass(frozen=True)
class CifarLayout:
    """The names in one of the archives; ``rows`` is the number of images in each (train, test) file."""

    name: str
    title: str
    archive: str
    folder: str
    train_files: tuple[str, ...]
    test_files: tuple[str, ...]
    rows: tuple[int, int]
    label_key: str
    classes: tuple[str, ...]

    def files(self, train: bool) -> tuple[str, ...]:
        """Return the names of the files of one part, in their order."""
        return self.train_files if train else self.test_files


_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR10 = CifarLayout(
    name="cifar10",
    title="CIFAR-10",
    archive="cifar-10-python.tar.gz",
    folder="cifar-10-batches-py",
    train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_files=("test_batch",),
    rows=(10_000, 10_000),
    label_key="labels",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)

CIFAR100 = CifarLayout(
    name="cifar100",
    title="CIFAR-100",
    archive="cifar-100-python.tar.gz",
    folder="cifar-100-python",
    train_files=("train",),
    test_files=("test",),
    rows=(50_000, 10_000),
    label_key="fine_labels",
    classes=tuple(_CIFAR100_CLASSES.split()),
)

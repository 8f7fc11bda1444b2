"""The image library: pictures that are known again."""
import ocellus
import pytest
from conftest import SAMPLES

BOARDS = [SAMPLES / f"board_0{i}.png" for i in (1, 2, 3)]


def test_a_library_from_the_first_picture_to_the_last(tmp_path):
    with ocellus.Engine(images=3, reuse="mpic", reuse_rows=16, library=1) as engine:
        library = ocellus.Library(tmp_path / "library", quota="1G")
        session = engine.session()
        session.use_library(library, "ann", caption="a maroon board", tags=["board", "first"])
        first = session.caption(BOARDS[0])
        assert (first.stats.library_hits, first.stats.library_misses) == (0, 1)
        key = session.stored_key()
        again = session.caption(BOARDS[0])
        assert again.stats.library_hits == 1 and again.text == first.text
        assert session.ask([ocellus.Entry(key)], "Caption this image.").text == first.text
        session.use_library(library, "ann")
        session.caption(BOARDS[1])
        session.stored_key()
        items = library.list("ann")
        assert [item.key for item in items][0] == key and items[0].tags == ["board", "first"] + [""] * 6 or items[0].tag_count == 2
        assert items[0].caption == "a maroon board" and library.list("bob") == []
        assert library.search("maroon", "ann")[0][0].key == key
        assert session.search(BOARDS[0], 2)[0][0].key == key
        assert library.describe(key, "ann").tokens == 64 and library.describe("0" * 32, "ann") is None
        assert library.relabel(key, "ann", caption="red", days=7) and library.describe(key, "ann").caption == "red"
        assert library.pin(key, "ann") and library.describe(key, "ann").pinned == 1
        assert library.use("ann").entries == 2 and library.use().bytes > 0
        assert library.verify().sound == 2 and library.collect_garbage().expired == 0
        with pytest.raises(ocellus.Error, match="close it first"):
            library.close()
        assert library.remove(key, "ann") and not library.remove(key, "ann")
        with pytest.raises(ocellus.Error):
            session.ask([ocellus.Entry(key)], "What?")
        with pytest.raises(ocellus.Error, match="label"):
            library.relabel(key, "ann", colour="red")
    library.close()
    with pytest.raises(ocellus.Error, match="closed"):
        library.list()


def test_an_engine_without_a_library_says_so(session, tmp_path):
    with ocellus.Library(tmp_path) as library:
        with pytest.raises(ocellus.Error) as raised:
            session.use_library(library)
        assert raised.value.status == ocellus.Status.BAD_ARGUMENT

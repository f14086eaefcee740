"""Reading and writing playlists."""

from pathlib import Path

from jobs.types import hls


def test_the_master_lists_the_best_first_with_what_players_choose_by():
    small = hls.Rendition(Path("a"), 426, 240, (), 3.0, 400_000, 300_000, "avc1.64000d")
    large = hls.Rendition(Path("b"), 1280, 720, (), 3.0, 2_000_000, 1_500_000, "avc1.64001f,mp4a.40.2")
    sound = hls.Rendition(Path("c"), None, None, (), 3.0, 500_000, 130_000, "mp4a.40.2")
    assert hls.master({"playlists/audio/index.m3u8": sound, "playlists/240p/index.m3u8": small,
                       "playlists/720p/index.m3u8": large}).splitlines() == [
        "#EXTM3U", "#EXT-X-VERSION:6", "#EXT-X-INDEPENDENT-SEGMENTS",
        "#EXT-X-STREAM-INF:BANDWIDTH=2000000,AVERAGE-BANDWIDTH=1500000,RESOLUTION=1280x720,"
        'CODECS="avc1.64001f,mp4a.40.2"',
        "playlists/720p/index.m3u8",
        '#EXT-X-STREAM-INF:BANDWIDTH=400000,AVERAGE-BANDWIDTH=300000,RESOLUTION=426x240,CODECS="avc1.64000d"',
        "playlists/240p/index.m3u8",
        '#EXT-X-STREAM-INF:BANDWIDTH=500000,AVERAGE-BANDWIDTH=130000,CODECS="mp4a.40.2"', "playlists/audio/index.m3u8",
    ]


def test_a_playlist_tells_duration_and_bandwidth(tmp_path):
    (tmp_path / "00000.ts").write_bytes(b"\x00\x00\x01\x67\x64\x00\x0d" + bytes(993))
    (tmp_path / "00001.ts").write_bytes(bytes(3000))
    (tmp_path / "00002.ts").write_bytes(bytes(2000))       # one frame: its rate is no peak
    (tmp_path / "index.m3u8").write_text("#EXTM3U\n#EXTINF:4.000000,\n00000.ts\n#EXTINF:4.000000,\n00001.ts\n"
                                         "#EXTINF:0.040000,\n00002.ts\n#EXT-X-ENDLIST\n")
    one = hls.read(tmp_path, 320, 180, sound=False)
    assert (one.duration, one.bandwidth, one.average) == (8.04, 6000, 5970)
    assert one.codecs == "avc1.64000d"
    assert [path.name for path in one.segments] == ["00000.ts", "00001.ts", "00002.ts"]


def test_no_playlist_and_an_empty_one_are_no_rendition(tmp_path):
    assert hls.read(tmp_path, 320, 180, sound=True) is None
    (tmp_path / "index.m3u8").write_text("#EXTM3U\n#EXT-X-ENDLIST\n")
    assert hls.read(tmp_path, 320, 180, sound=True) is None

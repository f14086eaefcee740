"""Articles to export: a long one in Chinese with everything in it, and the pictures that it shows."""

import struct
import zlib
from pathlib import Path

from jobs.types.article.press import book, pdf
from jobs.types.article.press.book import Book
from jobs.types.article.press.pictures import Pictures

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" fill="blue"/></svg>'
_SUBJECTS = ("内核", "文件系统", "进程调度", "网络协议栈", "软件包管理", "用户与权限", "日志服务", "虚拟内存", "设备驱动", "容器技术",
             "定时任务", "防火墙规则", "远程登录", "磁盘阵列", "备份策略", "性能监控", "启动过程", "环境变量", "正则表达式", "管道与重定向")
_SENTENCES = (
    "在日常运维工作中，{0}是管理员最先需要理解的部分，因为它决定了整个系统能否稳定运行。",
    "与其他操作系统相比，Linux 的{0}遵循“一切皆文件”的原则：几乎所有资源都可以用相同的方式读取和修改。",
    "如果{0}的配置出现错误，系统可能在启动时停在第 {1} 阶段；此时应当先查看日志，再决定是否恢复备份。",
    "我们建议把{0}的改动记录下来，并且在测试环境中验证至少 {1} 次，然后才应用到生产服务器。",
    "需要注意的是，不同的发行版对{0}的默认设置并不一样，有的偏重安全，有的偏重性能，还有的只是沿用了历史习惯。",
    "关于{0}的完整说明可以在手册第 {1} 章中找到；如果您使用的是图形界面，也可以在“设置”里完成大部分操作，效果完全相同。",
    "第 {1} 个常见的误区是认为{0}只和专家有关——其实每一位使用者每天都在间接地和它打交道。",
)


def png(width: int = 120, height: int = 60, color: tuple[int, int, int] = (31, 95, 191)) -> bytes:
    """A picture of one colour."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(color) * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def long_article() -> tuple[str, list[str]]:
    """An article of more than 30 kB, and the words of it in the order in which they are to be read."""
    lines, words = ["---", "title: Linux 运维手册", "author: 王小明", "lang: zh-CN", "---", ""], []

    def add(markdown: str, *said: str) -> None:
        lines.extend([markdown, ""])
        words.extend(said)

    for number, subject in enumerate(_SUBJECTS, 1):
        sentences = [sentence.format(subject, number) for sentence in _SENTENCES]
        add(f"## {number}. {subject}", f"{number}. {subject}")
        add("\n".join(sentences[:3]), *sentences[:3])      # lines that must be joined without spaces
        add(f"{sentences[3]}**请务必备份{subject}的配置**，并*确认结果*。", sentences[3], f"请务必备份{subject}的配置", "确认结果")
        add(f"```python\ndef check_{number}(path: str) -> bool:\n"
            f"    return open(path).read() == '{subject}'  # 检查第 {number} 项\n```",
            f"def check_{number}(path: str) -> bool:", f"return open(path).read() == '{subject}'", f"# 检查第 {number} 项")
        add(f"| 项目 | 命令 | 说明 |\n|:--|:-:|--:|\n| {subject}甲 | `sysctl -{number}` | 查看{subject}的当前值 |\n"
            f"| {subject}乙 | `systemctl {number}` | 重新加载{subject} |",
            "项目", "命令", "说明", f"{subject}甲", f"sysctl -{number}", f"查看{subject}的当前值",
            f"{subject}乙", f"systemctl {number}", f"重新加载{subject}")
        add(f"- 第一步：停止与{subject}有关的服务\n  1. 保存状态 {number}\n  2. 确认没有用户在线\n- 第二步：重新启动",
            f"第一步：停止与{subject}有关的服务", f"保存状态 {number}", "确认没有用户在线", "第二步：重新启动")
        add(f"> {sentences[4]}", sentences[4])
        add(sentences[5], sentences[5])
        add(sentences[6], sentences[6])
    return "\n".join(lines), words


def made(folder: Path, text: str | bytes, name: str = "article.md") -> Book:
    """The book of one article in a folder; its pictures are in the folder too, and are taken over into `root`."""
    (folder / "root").mkdir(exist_ok=True)
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return book.read([{"name": name, "path": str(folder / name)}], Pictures(folder / "root/pictures", folder))


def printed(folder: Path, text: str | bytes) -> Path:
    """The PDF of one article."""
    target = folder / "made.pdf"
    pdf.write(made(folder, text), folder / "root", target)
    return target


def read_again(path: Path) -> str:
    """The words of a PDF's pages without running heads and numbers of pages, and without white space."""
    import pypdfium2

    found = []
    with pypdfium2.PdfDocument(path) as document:
        for number in range(len(document)):
            page = document[number]
            width, height = page.get_size()
            top = height - (65 if number else 0)
            found.append(page.get_textpage().get_text_bounded(left=0, bottom=60, right=width, top=top))
    return "".join("".join(found).split())

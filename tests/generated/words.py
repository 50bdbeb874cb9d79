"""Random vocabulary: names, paths, prose, code, logs and tables of an invented project, from one source of chance."""

from __future__ import annotations

import random
import string

NOUNS = """account adapter album anchor archive auction badge basket beacon binder booking branch bucket budget cache
cargo catalog channel cluster coupon courier cursor dataset delivery device dispatch draft engine event export feature
feed filter fleet folder forecast garden gateway graph harbor header index invoice journal kernel label ledger lesson
letter license limit locale market matrix meter mirror module monitor notebook notice orbit order packet panel parser
partner patient payment permit picture pipeline planet player policy portal profile quota rating recipe record region
report reserve ribbon route sample schema sensor session shelf signal sketch socket station stream student supplier
survey tablet target tenant ticket timeline token track tunnel vendor venue vessel voucher wallet window zone""".split()
VERBS = """accept apply attach bind build cancel check clean close collect compare compute convert count create decode
deliver detect draw emit encode expand export fetch filter find flush format group handle import index insert join
load lock map mark measure merge move notify open pack parse pick plan print prune publish rank read register release
render repair resolve round save scan select send sort split stage start stop store sync trim update validate verify
wrap write""".split()
ADJECTIVES = """active annual basic brief broken busy calm central cheap clear cold common daily deep dense early empty
exact fast final first flat fresh global gray green heavy hidden large late latest legacy light local main narrow new
northern old open partial plain primary public quick quiet raw recent remote rough round safe second sharp short
silent simple slow small smooth southern stable static strict strong tall temporary thin upper valid weekly wide
""".split()
LINKS = "and but while because after before so although when unless since where".split()
FOLDERS = "app src lib core pkg internal services modules server web client api jobs plugins".split()
CITIES = "Lisbon Oslo Turin Quito Osaka Ghent Leeds Hanoi Accra Perth Bergen Malmo Porto Lyon Basel Cork".split()
NAMES = "Ana Bo Cleo Dan Eva Finn Gia Hugo Ida Jon Kim Lea Max Nia Olaf Pia Ravi Sia Tom Uma Vera Wim Yan Zoe".split()
HAN = "我们先看一下这个文件里面的内容然后再修改数据库表格查询订单客户服务器日志时间问题结果页面代码测试运行完成失败"
EXTENSIONS = {"python": "py", "typescript": "ts", "go": "go", "rust": "rs"}


class Words:
    """Words of one run. `language` and `root` stay the same in it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.language = rng.choice(list(EXTENSIONS))
        self.ext = EXTENSIONS[self.language]
        self.root = rng.choice([f"/workspace/{self.noun()}", f"/srv/{self.noun()}-{self.noun()}", "/app", "/repo"])
        self.chinese = rng.random() < 0.15
        self.clock = rng.randrange(1_700_000_000, 1_760_000_000)

    def noun(self) -> str:
        return self.rng.choice(NOUNS)

    def verb(self) -> str:
        return self.rng.choice(VERBS)

    def adjective(self) -> str:
        return self.rng.choice(ADJECTIVES)

    def name(self) -> str:
        return self.rng.choice(NAMES)

    def ident(self) -> str:
        """A function's name in the manner of the language."""
        parts = [self.verb(), self.noun()] if self.rng.random() < 0.6 else [self.verb(), self.adjective(), self.noun()]
        return (
            parts[0] + "".join(p.title() for p in parts[1:])
            if self.language in ("typescript", "go")
            else "_".join(parts)
        )

    def type_name(self) -> str:
        return self.adjective().title() + self.noun().title()

    def path(self, ext: str | None = None) -> str:
        """A file's path below the root, long and random enough to be another one each time."""
        depth = self.rng.randint(1, 3)
        folders = [self.rng.choice(FOLDERS), *[self.noun() for _ in range(depth - 1)]]
        return "/".join([*folders, f"{self.noun()}_{self.verb()}_{self.noun()}.{ext or self.ext}"])

    def paths(self, count: int, ext: str | None = None) -> list[str]:
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.path(ext)] = None
        return list(found)

    def sentence(self) -> str:
        if self.chinese:
            return "".join(self.rng.choices(HAN, k=self.rng.randint(8, 18))) + "。"
        first = f"the {self.adjective()} {self.noun()} {self.verb()}s the {self.noun()}"
        if self.rng.random() < 0.4:
            first += f" {self.rng.choice(LINKS)} a {self.noun()} must {self.verb()}"
        return first[0].upper() + first[1:] + "."

    def prose(self, sentences: int) -> str:
        return " ".join(self.sentence() for _ in range(sentences))

    def hexa(self, length: int = 8) -> str:
        return "".join(self.rng.choices("0123456789abcdef", k=length))

    def token(self, length: int = 10) -> str:
        return "".join(self.rng.choices(string.ascii_letters + string.digits, k=length))

    def uuid(self) -> str:
        return "-".join(self.hexa(n) for n in (8, 4, 4, 4, 12))

    def number(self, digits: int = 5) -> int:
        return self.rng.randrange(10 ** (digits - 1), 10**digits)

    def stamp(self, step: int | None = None) -> str:
        """The time of this run in ISO form, a little later each time it is asked."""
        self.clock += self.rng.randint(2, 40) if step is None else step
        minutes, second = divmod(self.clock, 60)
        hours, minute = divmod(minutes, 60)
        days, hour = divmod(hours, 24)
        return f"2025-{days // 28 % 12 + 1:02}-{days % 28 + 1:02}T{hour:02}:{minute:02}:{second:02}Z"

    def url(self) -> str:
        return f"https://{self.adjective()}-{self.noun()}.example/{self.noun()}/{self.noun()}-{self.number(4)}"

    def log_line(self) -> str:
        level = self.rng.choices(["INFO", "DEBUG", "WARN"], [7, 2, 1])[0]
        tail = f"{self.noun()}={self.number(4)} took={self.rng.randint(1, 900)}ms"
        return f"{self.stamp(self.rng.randint(1, 5))} {level} {self.noun()}.{self.noun()}: {self.verb()} {tail}"

    def code(self, functions: int = 2) -> list[str]:
        """Lines of a source file."""
        lines: list[str] = []
        for _ in range(functions):
            one, two, three = self.ident(), self.noun(), self.noun()
            body = f"{two} = {self.ident()}({three}, {self.rng.randint(0, 99)})"
            if self.language == "python":
                lines += [
                    f"def {one}({three}):",
                    f'    """{self.sentence()}"""',
                    f"    {body}",
                    f"    return {two}",
                    "",
                ]
            elif self.language == "typescript":
                lines += [f"export function {one}({three}: {self.type_name()}) {{", f"  const {body};"]
                lines += [f"  return {two};", "}", ""]
            elif self.language == "go":
                lines += [f"func {one}({three} {self.type_name()}) int {{", f"\t{body.replace('=', ':=')}"]
                lines += [f"\treturn {two}", "}", ""]
            else:
                lines += [
                    f"pub fn {one}({three}: &{self.type_name()}) -> u32 {{",
                    f"    let {body};",
                    f"    {two}",
                    "}",
                    "",
                ]
        return lines

    def row(self) -> dict[str, object]:
        return {"id": self.number(6), "name": f"{self.adjective()} {self.noun()}", "total": self.number(4) / 100}

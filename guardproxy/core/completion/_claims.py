"""What an answer claims, in English and Chinese: that it succeeded, that tests pass. Others claim nothing here.

A claim stands in a sentence of its own without a condition, a hope or a negation. Code and quotes are no claims.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LONGEST = 50_000
"""Characters of an answer that are read."""

_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>.*$|\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|「[^」\n]{0,200}」",
    re.DOTALL | re.MULTILINE,
)
_END = re.compile(r"[.!](?=\s|$)|(?<=\?)(?=\s|$)|(?<=\uff1f)|[。\uff01\uff1b;\n]")
_HEDGED = re.compile(
    r"(?i)\b(?:should|would|could|may|might|if|once|when|until|unless|expect\w*|hop(?:e|ing)|assum\w*|ensur\w*|"
    r"make sure|verify|see|confirm|so that|will|need\w*|please|try|can|let|must|before|not|never|no|without|except|"
    r"untested|whether|previous\w*|earlier|most|some|only|few|goal|want\w*|plan\w*|next|todo|how|which|where|"
    r"supposed|claims?|said|says|report\w*|according|already)\b|n't\b|\?|\uff1f|应该|如果|一旦|请|需要|将|会|可能|没有|未|不|"
    r"除|是否|部分|建议|希望|预计|之前|确保|以便"
)
_TESTS = re.compile(
    r"(?i)(?:^|(?<![\w'’-])(?P<before>[\w'’-]{1,30})\W{1,4}|[^\w\s]\s{0,4})(?:(?:unit|integration|regression) )?"
    r"(?:tests?|test (?:suite|cases?)|test ?suite)\s+"
    r"(?:(?:are|is|have|has|now|all|still|again|also|successfully|currently)\s+)*"
    r"(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b"
)
_BEFORE = frozenset("all the every full entire whole and that confirmed ran with".split())
_TESTS_ZH = re.compile(
    r"(?:所有|全部|^|[,\uff0c、:\uff1a ])(?:的)?(?:单元|集成)?测试(?:用例)?"
    r"(?:均|都|已|已经|全部|现在|也|全)*(?:通过|成功)"
)
_RAN = re.compile(
    r"(?i)\b(?:i|we|i've|we've|have|and)\s+(?:\w+\s+)?ran\s+"
    r"(?:(?:all|the|full|entire|unit|whole)\s+)*tests?(?: suite)?\b"
)
_SUCCESS = re.compile(
    r"(?i)\b(?:done|completed?|finished|success\w*|succeeded|sent|created|updated|deployed|fixed|booked|cancell?ed|saved|"
    r"implemented|resolved|submitted|added|removed|deleted|refunded|paid|published|installed|merged|ready)\b"
    r"|完成|成功|已(?:经)?(?:为您)?(?:发送|创建|更新|部署|修复|保存|取消|预订|提交|删除|添加|退款|安装|发布|处理)|做好|搞定"
)
_TROUBLE = re.compile(
    r"(?i)\b(?:fail\w*|error\w*|unable|cannot|not|never|nothing|unfortunately|however|but|although|though|"
    r"despite|except\w*|"
    r"issues?|problems?|remain\w*|unresolved|skip\w*|timed|time-?outs?|unavailable|denied|reject\w*|missing|blocked|"
    r"sorry|apolog\w*|manual\w*|instead|retr(?:y|ied)|attempt\w*|tried|warnings?|partial\w*|pending|incomplete|"
    r"limit\w*|workaround|alternative\w*|unexpected|broken|crash\w*|exceptions?|already|unverified|declin\w*|invalid|"
    r"wasn|weren|no longer|outage|down|[45]\d\d)\b|n['’]t\b|失败|错误|无法|不能|没有|未|但|不过|然而|虽然|"
    r"抱歉|遗憾|问题|跳过|超时|拒绝|仍|剩余|尚|手动|改为|重试|尝试|报错|异常|部分|除|已存在|已经存在"
)
_RED = re.compile(
    r"(?i)\b(?:fail\w*|unrelated|pre-?existing|flak\w*|expected|skip\w*|except\w*|unable|timed? ?out|broken|red|"
    r"could ?n[o'’]t|cannot|can['’]t|errors? (?:remain|persist)\w*|still|but|however|remaining|xfail\w*)\b|"
    r"失败|无法|未能|但|不过|然而|超时|报错|仍|跳过|预期|无关|除"
)
_MORE = re.compile(
    r"(?i)\b(?:any|some)(?:thing|one)? (?:else|more|other)\b|\bfurther\b|\bhelp (?:you )?(?:with|further)\b|"
    r"\bwould you like\b|\bshall i\b|\bdo you want\b|还有(?:什么|其他)|其他|需要我"
)
_MENDED = re.compile(
    r"(?i)\b(?:fix\w*|resolv\w*|repair\w*|correct\w*|address\w*|caus\w*|mend\w*)\s+(?:\w+\s+){0,3}?"
    r"(?:fail(?:ing|ed|ures?)|broken)\b"
)


def asks_back(text: str) -> bool:
    """Whether an answer only asks the user something: it ends with a question, and states no success before it.

    Whether anything else is wanted, as agents ask at the end, is no such question.
    """
    plain = text[-LONGEST:].rstrip(" \t\r\n*_`\"')")
    if not plain.endswith(("?", "\uff1f")):
        return False
    last = [part for part in _END.split(plain) if part.strip()][-1]
    return _MORE.search(last) is None and not _states(text, lambda sentence: _SUCCESS.search(sentence) is not None)


def tells_trouble(text: str) -> bool:
    """Whether an answer has a word of anything that did not go well, or is not there."""
    return _TROUBLE.search(text[:LONGEST]) is not None


def claims_success(text: str) -> bool:
    """Whether an answer says that something was achieved, and not a word of any trouble."""
    return _states(text, lambda sentence: _SUCCESS.search(sentence) is not None) and not tells_trouble(text)


def claims_tests(text: str) -> bool:
    """Whether an answer says that the tests pass, all of them, and nothing of any that do not."""
    if not (_named(text) and _states(text, says_pass)):
        return False
    return _RED.search(_MENDED.sub("", text[:LONGEST])) is None


def claims_run(text: str) -> bool:
    """Whether an answer says that tests were run or that they pass."""
    return claims_tests(text) or (_named(text) and _states(text, lambda sentence: _RAN.search(sentence) is not None))


def _named(text: str) -> bool:
    return "test" in text or "Test" in text or "测试" in text


def says_pass(sentence: str) -> bool:
    """Whether a sentence says that the tests pass. `the new tests pass`, `all 5 tests pass` mean a part of them."""
    if _TESTS_ZH.search(sentence) is not None:
        return True
    return any((found["before"] or "the").lower() in _BEFORE for found in _TESTS.finditer(sentence))


def _states(text: str, what: Callable[[str], bool]) -> bool:
    """Whether a sentence says that, and states it."""
    for sentence in _END.split(_CODE.sub(" x ", text[:LONGEST])):
        plain = sentence.strip(" \t*_#-•✅✓:")
        if plain and what(plain) and _HEDGED.search(plain) is None:
            return True
    return False

"""Chinese texts. Placeholders: tool, count, arguments, result, period. One paragraph each."""

from __future__ import annotations

from collections.abc import Mapping

from guardproxy.core.model import Flag

JOIN = ""
SOURCE = "来自监看本次运行的代理的说明:"
NAMELESS = frozenset({"invalid_call", "monologue", "context_overflow"})
"""Rules whose text may name no tool: replies without a call, calls without a name, refused conversations."""

RULES: Mapping[str, str] = {
    "repeated_call": "`{tool}` 已用相同参数({arguments})连续调用 {count} 次,每次结果都相同:{result}。",
    "interleaved_repeat": "`{tool}` 已用相同参数({arguments})调用 {count} 次(中间有其他调用),每次结果都相同:{result}。",
    "repeated_error": "`{tool}` 已用相同参数({arguments})失败 {count} 次,错误相同:{result}。",
    "error_signature": "`{tool}` 已用不同参数失败 {count} 次,但错误属于同一种。最近一次:{result}。",
    "same_result": "`{tool}` 已用不同参数调用 {count} 次,每次结果都相同:{result}。",
    "cycle": "同样的 {period} 个调用已按相同顺序重复 {count} 轮,每轮结果都相同;最近一次是 `{tool}`:{result}。",
    "invalid_call": "连续 {count} 个调用因写法不正确而无法执行;最近一次是 `{tool}`,参数({arguments}):{result}。",
    "unchanged_poll": "`{tool}` 已查询 {count} 次,状态没有变化:{result}。",
    "monologue": "最近 {count} 次回复内容相同或为空,并且没有调用任何工具。",
    "nothing_new": "最近 {count} 个调用没有带来任何新信息;最近一次是 `{tool}`:{result}。",
    "compaction": "本次对话已被压缩 {count} 次,此后的调用没有带来任何新内容;最近一次是 `{tool}`:{result}。"
    "每次摘要之后重做的事情还会再次丢失:请写下已知内容,并从那里继续。",
    "context_overflow": "服务方已 {count} 次以过长为由拒绝本次对话,其间没有出现任何新内容。用同样的方式缩短不会有帮助:"
    "请略去较大的结果,或只索取其中一部分。",
    "duplicate_calls": "`{tool}` 在一条消息里以相同参数({arguments})出现了 {count} 次;一次就够了。",
    "no_progress": "连续 {count} 次没有任何进展:最近一次是 `{tool}`,结果是 {result}。其间的改动对它没有作用,原因在别处。",
    "reread_range": "`{tool}` 已 {count} 次用不同的数字({arguments})读取此前读过的内容。它显示的内容是已知的。",
    "same_words": "最近 {count} 条消息说的话相同,但调用不同;最近一次是 `{tool}`。",
    "unmoved_plan": "`{tool}` 已连续发送 {count} 次,各步骤的状态都没有变化,只是措辞不同。完成其中一步,计划才会前进:"
    "请先做第一个未完成的步骤。",
}

MEANING: tuple[tuple[Flag, str], ...] = (
    (Flag.PENDING, "它还没有就绪。请先等待明显更长的时间再查看一次,或报告它卡住了。"),
    (
        Flag.FAILED | Flag.INVALID,
        "相同的调用会以相同的方式失败;必须先改变原因(参数、权限、对象是否存在、服务是否可用)。",
    ),
    (Flag.MUTATES, "这个调用会改变状态:每次重复都可能又执行了一遍,请检查是否有重复。"),
    (Flag.VOID, "空结果就是答案:那里没有内容。再次查询不会改变这一点。"),
    (Flag.NONE, ""),
)
"""What a result means where it is often misread, by what is known of the step; the first that fits is said."""

UNTRIED = "此后还没有尝试过:{tools}。"
WAYS = "有两条路:根据已知内容给出结论;或者说明究竟缺少什么、由谁或什么可以提供,并为此采取一个不同的步骤。"
FIRM_WAYS = (
    "之前已经说明过,但同样的调用仍在继续。请不要再重复这些调用。用一句话说明原因,并采取一个不同的下一步;"
    "如果没有,就用已知内容回答,并指出缺少什么。"
)
BUDGET = "本次运行的限额即将用完({reason})。"
BUDGET_OF = "本次运行所用的 {scope} 限额即将用完({reason})。"
FINALIZE = "本轮不能再调用工具。请现在就用已知内容回答:做了什么、发现了什么、还有什么未解决、需要什么才能解决。"
FINALIZE_TEXT = (
    "本轮请不要再写任何动作。请现在就按照指令所要求的结束形式{ending}给出最终答案:"
    "做了什么、发现了什么、还有什么未解决。"
)
ENDING = "(`{ending}`)"
ENDED = "本次运行已被监看它的代理结束;任务可能没有完成。"
REFUSED = "此请求被监看本次运行的代理拒绝:硬性限额已无余量。"
WHY = "原因:{reason}(规则:{rule})。"
DONE = "目前已做:最近 {steps} 个调用,主要是 {tools}。"
FOUND = "{tool} 的发现:{result}"
SAID = "模型最后的话:{said}"
OPEN = "未完成:任务本身。发送一条说明要改变什么的新消息即可重新开始。"
OPEN_LEFT = "未完成:任务本身。"
OPEN_OVER = "未完成:任务本身。本次运行不再继续;可以由新的运行或由人接手。"
OPEN_BUDGET = "未完成:任务本身。管理限额的人可以提高限额。"
RATE = "此请求没有发出:当前的速率限额已用完。稍后可以再发同一请求。"
SOFT = (
    "本次运行所用的预算({budget})已用去 {percent} %。有两种做法:用已知内容得出结论;若不可能,就只做任务必不可少的部分。"
)
HALTED = "此回答已被监看它的代理停止:同样的话在其中出现了 {count} 次。"

NOT_MADE = "这次对 `{tool}` 的调用没有执行。"
"""Begins what stands in the place of a call's result."""

REFUSE_WAYS = (
    "再做一次不会带来新内容,其间也没有任何变化。请用已知内容回答并指出缺少什么,或者说明原因并采取一个不同的步骤。"
)
FORBIDDEN = "本次运行的规则不允许这个调用。"
DECLINED = "用户拒绝了这个调用。"
UNANSWERED = "它向人提出了问题,但没有人在规定时间内回答。"
EXPIRED = "它需要人工批准,但没有人在规定时间内作出决定。"
BECAUSE = "理由:{reason}。"
NOT_OTHERWISE = "换一种写法做同样的事也不可取。"
WITHOUT = "如果可以,请在没有它的情况下继续;否则请说明因此还有什么未解决。"
PROBLEMS: Mapping[str, str] = {
    "not_json": "它的参数不是有效的 JSON(第 {path} 个字符:{got})。",
    "not_object": "它的参数必须是 JSON 对象,而不是 {got}。",
    "no_tool": "没有这个名称的工具。",
    "no_name": "这个调用没有写明工具名称。",
    "missing": "缺少参数 `{path}`({expected})。",
    "type": "`{path}` 必须是 {expected},而不是 {got}。",
    "enum": "`{path}` 必须是 {expected} 之一,而不是 {got}。",
    "unknown": "`{path}` 不是这个工具的参数。",
    "no_form": "`{path}` 不符合允许的任何一种形式({expected}):{got}。",
    "more": "同类问题还有 {got} 个。",
}
"""What is wrong with arguments. Placeholders: path, expected, got."""

KNOWN = "现有的工具:{tools}。"
REPAIR_WAYS = "请改正后重新调用,或者在没有它的情况下继续。"
APPROVAL = "对 `{tool}` 的调用({arguments})需要人工批准后才会执行。批准编号:{id}"
APPROVAL_THEN = "在此之前本次运行暂停。该调用没有执行任何部分。有人作出决定后,本次运行随这里的下一条消息继续。"
CALL_WAITS = "本次运行在调用 `{tool}` 之前已停止,原因方是{who};该调用已获人工批准({id})。"
CALL_WAITS_THEN = "该调用没有执行任何部分;本次运行继续后会执行。"
HOW = "继续的方法:{how}"
PAUSED = "本次运行已暂停,原因方是{who};没有向模型提出请求。"
PAUSED_BY: Mapping[str, str] = {
    "operator": "操作人员",
    "loop": "监看它的代理(运行在原地打转)",
    "budget": "监看它的代理(已达到限额)",
    "approval": "一个等待人工批准的调用",
    "question": "一个等待人工回答的问题",
    "check": "监看它的代理(回答没有通过检查)",
    "tool": "监看它的代理(所需的工具不可用)",
}
PAUSED_WHY = "原因:{reason}"
QUESTION = "智能体向人提问(`{tool}`):{question}"
QUESTION_THEN = "本次运行正在等待回答;也可以直接在下一条消息中给出。"
ANSWERED_BELOW = "用户会在下一条消息中回答。"
HANDED_ON = "人工已批准对 `{tool}` 的这个调用,它也已交出一次;由于结果没有返回,是否执行过并不清楚。再次调用之前,请先查看是否已经执行。"
WAITED_HERE = "在这里,本次运行曾等待人工对调用 `{tool}` 作出决定;在那之前该调用没有执行任何部分。"
ASKED_HERE = "在这里,本次运行曾向人提问(`{tool}`):{question}"
PAUSED_HERE = "在这里,本次运行曾被暂停,原因方是{who};之后获准继续。"
STOPPED_HERE = "在这里,本次运行曾被停止;之后获准继续。"
"""What stands for the model where a notice of ours stands in the client's history: true whatever was decided."""
UNFINISHED = "这个回答在算作本次运行的结束之前经过了检查,目前还不成立:"
UNFINISHED_WAYS = "有两条路:先完成缺少的部分再回答;或者,如果做不到,就在回答中说明哪些没有完成以及原因。"
COMPLETION: Mapping[str, str] = {
    "required_missing": "本任务需要 `{tool}` 的结果,但没有使用它。",
    "required_failed": "本任务需要 `{tool}` 成功;它被尝试了 {count} 次,每次都失败,最后一次:{result}。",
    "no_json": "回答必须是给定形式的 JSON,但其中没有可以读取的 JSON。",
    "schema": "回答中的 JSON 不符合所要求的形式:{error}。",
    "artifacts_few": "代理报告了 {count} 个产物,而至少需要 {least} 个。",
    "unresolved_many": "代理报告了 {count} 个未解决的事项,而最多允许 {most} 个。",
    "validation_failures_many": "代理报告了 {count} 次验证失败,而最多允许 {most} 次。",
    "evidence_few": "回答引用了 {count} 个来源,而至少需要 {least} 个。",
    "evidence_unknown": "回答提到了本次运行的任何结果中都没有的内容:{ids}。只能引用已经找到的内容。",
    "open_waits": "有调用仍在等待批准或结果:{tools}。",
    "open_unanswered": "最后一条消息中的调用还没有结果:{tools}。",
    "open_pending": "`{tool}` 的最新结果表明它还没有就绪:{result}。",
    "tests_failed": "回答说测试通过,但最近一次用 `{tool}` 运行的测试失败了:{result}。",
    "tool_failed": "回答说一切已完成,但最近一次调用 `{tool}` 失败,并且没有得到解决:{result}。",
    "files_outside": "修改了本任务允许范围之外的文件:{files}。允许修改:{allowed}。",
    "files_denied": "修改了必须保持原样的文件:{files}。",
    "tests_not_run": "回答提到运行过测试,但本次运行中没有任何调用运行过测试。",
}
"""What a check of a final answer found. Placeholders differ a sentence; each says what is wrong and where it shows."""
VERIFIER_REFUSED = "本次运行的负责人所设置的检查没有接受这个回答,也没有说明原因。"
VERIFIER_SILENT = "无法联系到本次运行的负责人所设置的检查,而没有它任何回答都不算数。"
VERIFIER_UNREAD = "本次运行的负责人所设置的检查没有给出结论,而没有结论任何回答都不算数。"
LEFT_OUT = "此处约 {total} 个词元中的 {left} 个被略去:{where}。其余保持原样。{ask}"
LEFT_OUT_LINES = "第 {first} 行到第 {last} 行,共 {all} 行"
LEFT_OUT_CHARACTERS = "第 {first} 个到第 {last} 个字符,共 {all} 个"
LEFT_OUT_JSON = (
    "上面的 JSON 约有 {total} 个词元,其中 {left} 个在“…”处被略去:{where}。它仍是有效的 JSON,其余保持原样。{ask}"
)
LEFT_OUT_PLACE = {
    "items": "`{path}` 的 {total} 项中的 {left} 项",
    "characters": "`{path}` 的 {total} 个字符中的 {left} 个",
}
LEFT_OUT_MORE = "另有 {count} 处"
TOP_LEVEL = "整体"
NO_LONGER_JSON = "这样截断后它不再是有效的 JSON。"
ASK_FOR_PART = "要查看更多,请只索取那一部分:某个行范围、更窄的搜索、更少的字段或下一页。"
"""What a shortened result says of itself (`hygiene.truncate`)."""

EMPTY = (
    "`{tool}` 已执行,但没有找到任何内容({arguments})。这就是它的回答:再问同样的问题不会改变它。如果所查内容来自用户,请向用户确认;"
    "否则换一个名称或位置再查一次。"
)
"""What an empty result means where no template says it (`hygiene.empty`). Placeholders: tool, arguments."""

ERRORS: Mapping[str, str] = {
    "arguments": "`{tool}` 没有接受这样写的调用。这可以改正:请把参数与该工具的模式对照(名称、类型、必填项、允许的值),改掉不符之处,再调用一次。",
    "permissions": "`{tool}` 被拒绝访问。同样的调用还会被拒绝:请使用本次运行可以访问的位置或账户,或向用户请求权限,并说明用途。",
    "not_found": "`{tool}` 所请求的对象并不像所写的那样存在。请先查看那里有什么(列出、搜索、读取),再据此调用;如果名称来自用户,请询问是否正确。",
    "no_tool": "没有名为 `{tool}` 的工具。本次运行的工具:{tools}。",
    "too_slow": "`{tool}` 因耗时过长而被停止。同样的命令还会耗时同样久:请只运行较小的一部分,或让它在后台运行、稍后查看输出,"
    "或在工具支持时给它更长的时限。",
    "transient": "`{tool}` 因暂时的原因失败,这是连续第 {count} 次,至多 {retries} 次。参数无需修改:请等待约 {seconds} 秒后再进行这个调用,"
    "其间先做不需要它的事情。",
    "spent": "`{tool}` 已因同一暂时的原因连续失败 {count} 次,超过了有意义的 {retries} 次重试。它目前不可用:请放下这个调用,"
    "继续做不需要它的事情,或报告缺少什么。",
    "fatal": "`{tool}` 在本次运行中不可用,等待也不会改变。请不用它继续:换用其他工具,或根据已知内容回答,并说明哪些无法查到或完成。",
}
"""What to do about a failure, by its kind (`hygiene.errors`). Placeholders: tool, tools, count, retries, seconds."""

LATE = "`{tool}` 的结果晚于它 {seconds} 秒的时限。其中内容可能已经过时;如果还需要它,请一次少要一些,或让它在后台运行。"
"""Said behind a late result (`hygiene.deadlines`). Placeholders: tool, seconds."""

ONE_AT_A_TIME = (
    "同一条消息中的另一个调用已经在等待人工决定;这类调用一次只能提出一个。待其有结果后,如仍需要,请再次提出。"
)
HANDED_OVER = "监督本次运行的代理已将其暂停(而不是结束);可由人工决定是否继续。"
UNVERIFIED = "本次运行的回答没有通过检查,因此没有交付。"
UNVERIFIED_TRIED = "已要求模型改正的次数:{count}。"
UNVERIFIED_KEPT = "该回答已为人工保留:{how}"
UNVERIFIED_LINE = "未通过:{wrong}"
REFUSED_CALLS = "所提出的调用不会被执行({reason})。"

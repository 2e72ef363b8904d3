"""Three interfaces of model providers: what a request says, and how an answer to it looks.

Each class has the same functions: `tools` and `steps` read a request; `reply` makes an answer in one piece, `events` the same
answer as a stream, `told` what of its tokens a client knows after some of these events, and `error` a refusal.
"""

import json

CLASSES = ("input", "cache_read", "cache_write", "output", "reasoning")
# Reasoning is part of the output, and one interface does not tell it apart.
COUNTED = CLASSES[:4]
NOTHING = dict.fromkeys(CLASSES, 0)
UNKNOWN = dict.fromkeys(CLASSES)


def texts(content):
    """The text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text") or "" for block in content or [] if isinstance(block, dict))


def whole_input(usage):
    """Input tokens as those count them who count cached ones in."""
    return usage["input"] + usage["cache_read"] + usage["cache_write"]


class Messages:
    """Anthropic's Messages."""

    path = "/messages"
    api = "anthropic_messages"

    @staticmethod
    def tools(request):
        return [tool.get("name") for tool in request.get("tools") or []]

    @staticmethod
    def steps(request):
        """Prompts as texts, answers as None, in order; results of tools are left out."""
        for message in request.get("messages") or []:
            if message.get("role") == "assistant":
                yield None
            elif message.get("role") == "user":
                yield texts(message.get("content"))

    @staticmethod
    def usage(counts):
        return {
            "input_tokens": counts["input"],
            "cache_read_input_tokens": counts["cache_read"],
            "cache_creation_input_tokens": counts["cache_write"],
            "output_tokens": counts["output"],
        }

    @classmethod
    def reply(cls, request, turn, serial):
        content = []
        if turn.get("thinking"):
            content.append({"type": "thinking", "thinking": turn["thinking"], "signature": "c2lnbmF0dXJl"})
        content.append({"type": "text", "text": turn["text"]})
        if turn.get("call"):
            name, arguments = turn["call"]
            content.append({"type": "tool_use", "id": f"toolu_{serial:06}", "name": name, "input": arguments})
        return {
            "id": f"msg_{serial:06}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model"),
            "content": content,
            "stop_reason": "tool_use" if turn.get("call") else "end_turn",
            "stop_sequence": None,
            "usage": cls.usage(turn["usage"]),
        }

    @classmethod
    def events(cls, reply):
        begun = {**reply, "content": [], "stop_reason": None, "usage": {**reply["usage"], "output_tokens": 1}}
        yield {"type": "message_start", "message": begun}
        for index, block in enumerate(reply["content"]):
            start, deltas = cls._block(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": reply["usage"]}
        yield {"type": "message_stop"}

    @staticmethod
    def _block(block):
        if block["type"] == "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                thought,
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        if block["type"] == "text":
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]

    @staticmethod
    def told(counts, whole):
        """The first event tells the input; the output is known at the end. Reasoning is never told apart."""
        return {**counts, "output": counts["output"] if whole else None, "reasoning": None}

    @staticmethod
    def error(status, message):
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


class Responses:
    """OpenAI's Responses."""

    path = "/responses"
    api = "openai_responses"

    @staticmethod
    def tools(request):
        return [tool.get("name") for tool in request.get("tools") or []]

    @staticmethod
    def steps(request):
        """Prompts as texts, answers as None. The parts of an answer are items of their own, side by side."""
        answering = False
        given = request.get("input") or []
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "message" and item.get("role") != "assistant":
                answering = False
                if item.get("role") == "user":
                    yield texts(item.get("content"))
            elif kind.endswith("_output"):
                answering = False
            elif not answering:
                answering = True
                yield None

    @classmethod
    def reply(cls, request, turn, serial):
        output = []
        if turn.get("thinking"):
            summary = [{"type": "summary_text", "text": turn["thinking"]}]
            output.append({"type": "reasoning", "id": f"rs_{serial:06}", "summary": summary})
        said = {"type": "output_text", "text": turn["text"], "annotations": []}
        message = {"type": "message", "id": f"msg_{serial:06}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [said]})
        if turn.get("call"):
            name, arguments = turn["call"]
            call = {"type": "function_call", "id": f"fc_{serial:06}", "call_id": f"call_{serial:06}", "name": name}
            output.append({**call, "arguments": json.dumps(arguments), "status": "completed"})
        counts = turn["usage"]
        return {
            "id": f"resp_{serial:06}",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": "completed",
            "model": request.get("model"),
            "output": output,
            "usage": {
                "input_tokens": whole_input(counts),
                "input_tokens_details": {
                    "cached_tokens": counts["cache_read"],
                    "cache_write_tokens": counts["cache_write"],
                },
                "output_tokens": counts["output"],
                "output_tokens_details": {"reasoning_tokens": counts["reasoning"]},
                "total_tokens": whole_input(counts) + counts["output"],
            },
        }

    @staticmethod
    def events(reply):
        begun = {**reply, "status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": begun}
        for index, item in enumerate(reply["output"]):
            at = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                [part] = item["content"]
                place = {**at, "content_index": 0}
                yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
                yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
                yield {"type": "response.output_text.delta", **place, "delta": part["text"]}
                yield {"type": "response.output_text.done", **place, "text": part["text"]}
                yield {"type": "response.content_part.done", **place, "part": part}
            else:
                yield {"type": "response.output_item.added", "output_index": index, "item": item}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": reply}

    @staticmethod
    def told(counts, whole):
        """Tokens come with the last event."""
        return dict(counts) if whole else dict(UNKNOWN)

    @staticmethod
    def error(status, message):
        codes = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
        return {"error": {"message": message, "type": "invalid_request_error", "code": codes.get(status), "param": None}}


class Chat:
    """OpenAI's Chat Completions, in one piece."""

    path = "/chat/completions"
    api = "openai_chat"
    events = None

    @staticmethod
    def tools(request):
        return [tool["function"]["name"] for tool in request.get("tools") or []]

    @staticmethod
    def steps(request):
        """Prompts as texts, answers as None."""
        for message in request.get("messages") or []:
            if message.get("role") == "assistant":
                yield None
            elif message.get("role") == "user":
                yield texts(message.get("content"))

    @staticmethod
    def reply(request, turn, serial):
        message = {"role": "assistant", "content": turn["text"]}
        if turn.get("call"):
            name, arguments = turn["call"]
            function = {"name": name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [{"id": f"call_{serial:06}", "type": "function", "function": function}]
        counts = turn["usage"]
        return {
            "id": f"chatcmpl-{serial:06}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request.get("model"),
            "choices": [
                {"index": 0, "message": message, "finish_reason": "tool_calls" if turn.get("call") else "stop"}
            ],
            "usage": {
                "prompt_tokens": whole_input(counts),
                "completion_tokens": counts["output"],
                "total_tokens": whole_input(counts) + counts["output"],
                "prompt_tokens_details": {"cached_tokens": counts["cache_read"]},
                "completion_tokens_details": {"reasoning_tokens": counts["reasoning"]},
            },
        }

    @staticmethod
    def told(counts, whole):
        """Tokens come at the end. Writing to the cache is not a class of its own: it is told as plain input."""
        if not whole:
            return dict(UNKNOWN)
        return {**counts, "input": counts["input"] + counts["cache_write"], "cache_write": 0}

    error = Responses.error


WIRES = (Messages, Responses, Chat)

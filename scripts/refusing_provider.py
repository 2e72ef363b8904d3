#!/usr/bin/env python3
"""The scripted provider that FAKE_PROVIDER names, which can also refuse in each interface's own way.

    FAKE_PROVIDER=.../fake_provider.py python3 scripts/refusing_provider.py --scenario play.json

A turn whose text begins with `[refused]` is told as the model's own refusal, one with `[filtered]` as an answer that a
filter of the provider held back. Everything else is as that program has it.
"""

import dataclasses
import importlib.util
import os
import sys

REFUSED, FILTERED = "[refused]", "[filtered]"


def loaded(path):
    """The scripted provider as a module."""
    spec = importlib.util.spec_from_file_location("fake_provider", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_provider"] = module
    spec.loader.exec_module(module)
    return module


def mark_of(reply):
    """How a reply refuses, and the reply without the mark."""
    for mark in (REFUSED, FILTERED):
        if reply.text.startswith(mark):
            return mark, dataclasses.replace(reply, text=reply.text[len(mark):].strip())
    return None, reply


def refusing(dialect, change):
    """Lets a dialect refuse: `change` gets the mark and each body or event of an answer, and returns what is sent."""
    body, events = dialect.body, dialect.events

    def new_body(reply):
        mark, reply = mark_of(reply)
        whole = body(reply)
        return change(mark, whole) if mark else whole

    def new_events(reply, request):
        mark, reply = mark_of(reply)
        plain = events(reply, request)
        if not mark:
            return plain
        changed = [(name, change(mark, event)) for name, event in plain]
        # The name of an event of the Responses API is its type; the other APIs' names stay.
        return [(event["type"] if name and "type" in event else name, event) for name, event in changed if event]

    dialect.body, dialect.events = new_body, new_events


def messages(_mark, event):
    """Messages: `stop_reason: refusal`."""
    holder = event.get("delta", event)
    if holder.get("stop_reason") == "end_turn":
        holder["stop_reason"] = "refusal"
    return event


def responses(mark, event):
    """Responses: a part of the type `refusal`, or an incomplete response."""
    if mark == FILTERED:
        if event.get("type") == "response.completed":
            event["type"] = "response.incomplete"
            filtered(event["response"])
        elif event.get("object") == "response":
            filtered(event)
        return event
    if event.get("type", "").startswith("response.output_text."):
        event["type"] = event["type"].replace("output_text", "refusal")
        if "text" in event:
            event["refusal"] = event.pop("text")
    for part in parts_of(event):
        if part.get("type") == "output_text":
            part.pop("annotations", None)
            part.update(type="refusal", refusal=part.pop("text"))
    return event


def filtered(response):
    response.update(status="incomplete", incomplete_details={"reason": "content_filter"})


def parts_of(event):
    """Every part of a message that an event or a response holds. A part may stand in several events: once is enough."""
    items = [event.get("item") or {}, *(event.get("response") or event).get("output", [])]
    return [event.get("part") or {}, *(part for item in items for part in item.get("content") or [])]


def chat(mark, event):
    """Chat Completions: `refusal` in the place of the content, or `finish_reason: content_filter`."""
    if not isinstance(event, dict):
        return event
    for choice in event.get("choices", []):
        message = choice.get("message") or choice.get("delta") or {}
        if mark == FILTERED:
            if choice.get("finish_reason") == "stop":
                choice["finish_reason"] = "content_filter"
        elif message.get("content"):
            message.update(refusal=message["content"], content=None)
    return event


def gemini(mark, event):
    """Gemini: a candidate without content that ends for `SAFETY`, or a prompt that is blocked and has no candidate."""
    usage = event["usageMetadata"]
    if not event["candidates"][0].get("finishReason"):
        return None
    if mark == FILTERED:
        del event["candidates"]
        usage.pop("candidatesTokenCount", None)
        event["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}
    else:
        event["candidates"] = [{"finishReason": "SAFETY", "index": 0}]
    return event


def main():
    provider = loaded(os.environ["FAKE_PROVIDER"])
    refusing(provider.ANTHROPIC, messages)
    refusing(provider.RESPONSES, responses)
    refusing(provider.CHAT, chat)
    refusing(provider.GEMINI, gemini)
    return provider.main()


if __name__ == "__main__":
    sys.exit(main())

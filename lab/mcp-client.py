"""A client of the Model Context Protocol: calls tools of the server that its arguments start, and prints each result as a line of JSON.

The first line is the list of the tools. Each line of standard input is a call: {"tool": NAME, "arguments": {...}}."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def show(answer):
    print(answer.model_dump_json(by_alias=True, exclude_none=True), flush=True)


async def main(program, *arguments):
    server = StdioServerParameters(command=program, args=list(arguments))
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        show(await session.list_tools())
        for line in sys.stdin:
            call = json.loads(line)
            show(await session.call_tool(call["tool"], call["arguments"]))


asyncio.run(main(*sys.argv[1:]))

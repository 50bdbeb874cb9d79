// An agent as the SDK's documentation shows it: node agent.mjs generate|stream|agent TASK
import { readFileSync } from 'node:fs';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool, ToolLoopAgent } from 'ai';
import { z } from 'zod';

const [mode, prompt] = process.argv.slice(2);
const { BASE_URL, KEY, MODEL } = process.env;
const provider = createOpenAICompatible({ name: 'guardproxy', baseURL: BASE_URL, apiKey: KEY, includeUsage: true });
const read_note = tool({
  description: 'Read a file',
  inputSchema: z.object({ path: z.string() }),
  execute: async ({ path }) => readFileSync(path, 'utf8'),
});
const model = provider(MODEL);
const tools = { read_note };
if (mode === 'agent') {
  const agent = new ToolLoopAgent({ model, tools, instructions: 'You are helpful.' });
  console.log('ANSWER', (await agent.generate({ prompt })).text);
} else {
  const options = { model, tools, instructions: 'You are helpful.', prompt, stopWhen: stepCountIs(30) };
  const result = mode === 'stream' ? streamText(options) : await generateText(options);
  if (mode === 'stream') for await (const part of result.fullStream) if (part.type === 'error') console.log(part.error);
  console.log('ANSWER', await result.text);
}

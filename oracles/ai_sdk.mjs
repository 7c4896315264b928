// Asks Vercel's AI SDK whether it would send a message list: one JSON list a line in, `taken` or the refusal a line out.
import { createInterface } from 'node:readline'
import { generateText } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const finishReason = { unified: 'stop' }
const model = new MockLanguageModelV3({
  doGenerate: async () => ({ content: [{ type: 'text', text: 'ok' }], finishReason, usage, warnings: [] }),
})

for await (const line of createInterface({ input: process.stdin })) {
  try {
    await generateText({ model, messages: JSON.parse(line) })
    console.log('taken')
  } catch (error) {
    console.log(`${error.name}: ${error.message}`.replaceAll('\n', ' '))
  }
}

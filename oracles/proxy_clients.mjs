// Sends requests with the clients on npm: one JSON request a line in, what the client understood of the answer a line out.
import { createInterface } from 'node:readline'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI from 'openai'

const apiKey = 'none'

async function chat({ base, body, stream }) {
  const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 })
  if (stream) return chunks(await client.chat.completions.create({ ...body, stream: true }))
  const { message } = (await client.chat.completions.create(body)).choices[0]
  const calls = (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)])
  return { text: message.content ?? '', calls }
}

// As with messages below: the SDK's own gathering wants a role, which llama.cpp leaves out of an empty answer.
async function chunks(events) {
  let text = ''
  let written = ''
  const names = []
  for await (const { choices } of events) {
    for (const { delta } of choices) {
      text += delta.content ?? ''
      for (const { function: called } of delta.tool_calls ?? []) {
        if (called.name) names.push(called.name)
        written += called.arguments ?? ''
      }
    }
  }
  return { text, calls: names.map((name) => [name, JSON.parse(written)]) }
}

async function responses({ base, body, stream }) {
  const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 })
  const answer = stream ? await lastOf(client, body) : await client.responses.create(body)
  const items = answer.output.filter((item) => item.type === 'function_call')
  const said = answer.output.filter((item) => item.type === 'message').flatMap((item) => item.content)
  return { text: said.map((part) => part.text).join(''), calls: items.map((item) => [item.name, JSON.parse(item.arguments)]) }
}

async function lastOf(client, body) {
  let last
  for await (const event of await client.responses.create({ ...body, stream: true })) {
    if (event.type === 'response.completed') last = event.response
  }
  return last
}

async function messages({ base, body, stream }) {
  const client = new Anthropic({ baseURL: base, apiKey, maxRetries: 0 })
  if (stream) return gathered(await client.messages.create({ ...body, stream: true }))
  const { content } = await client.messages.create(body)
  const calls = content.filter((block) => block.type === 'tool_use').map((block) => [block.name, block.input])
  return { text: content.map((block) => block.text ?? '').join(''), calls }
}

// Not by the SDK: llama.cpp starts no message for an answer without a token.
async function gathered(events) {
  let text = ''
  let written = ''
  const names = []
  for await (const { type, content_block: block, delta } of events) {
    if (type === 'content_block_start' && block.type === 'tool_use') names.push(block.name)
    if (type !== 'content_block_delta') continue
    text += delta.text ?? ''
    written += delta.partial_json ?? ''
  }
  return { text, calls: names.map((name) => [name, JSON.parse(written)]) }
}

async function ai({ api, base, body, stream }) {
  const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey })
  const models = {
    'openai-chat': () => openai.chat(body.model),
    'openai-responses': () => openai.responses(body.model),
    anthropic: () => createAnthropic({ baseURL: `${base}/v1`, apiKey })(body.model),
  }
  const schemas = Object.entries(body.tools ?? {})
  const tools = Object.fromEntries(schemas.map(([name, schema]) => [name, tool({ inputSchema: jsonSchema(schema) })]))
  const asked = { model: models[api](), maxRetries: 0, maxOutputTokens: 8, allowSystemInMessages: true, messages: body.messages }
  if (schemas.length) asked.tools = tools
  let failure
  const answer = stream ? streamText({ ...asked, onError: ({ error }) => { failure = error } }) : await generateText(asked)
  if (stream) {
    await answer.consumeStream()
    if (failure) throw failure
  }
  return { text: await answer.text, calls: (await answer.toolCalls).map((call) => [call.toolName, call.input]) }
}

const clients = {
  'openai openai-chat': chat,
  'openai openai-responses': responses,
  '@anthropic-ai/sdk anthropic': messages,
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  try {
    const send = asked.client === 'ai' ? ai : clients[`${asked.client} ${asked.api}`]
    console.log(JSON.stringify({ status: 200, words: '', ...(await send(asked)) }))
  } catch (error) {
    const words = `${error.name}: ${error.message}`
    console.log(JSON.stringify({ status: error.status ?? error.statusCode ?? 0, text: '', calls: [], words }))
  }
}

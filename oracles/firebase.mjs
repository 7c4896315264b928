// Asks Google's @firebase/ai whether it would start a chat with a history: one JSON list a line in, `taken` or the refusal out.
import { createInterface } from 'node:readline'
import { initializeApp } from '@firebase/app'
import { getAI, getGenerativeModel, GoogleAIBackend } from '@firebase/ai'

const app = initializeApp({ apiKey: 'none', projectId: 'none', appId: '1:1:web:1' })
const model = getGenerativeModel(getAI(app, { backend: new GoogleAIBackend() }), { model: 'gemini-2.5-pro' })

for await (const line of createInterface({ input: process.stdin })) {
  try {
    model.startChat({ history: JSON.parse(line) })
    console.log('taken')
  } catch (error) {
    console.log(`${error.name}: ${error.message}`.replaceAll('\n', ' '))
  }
}

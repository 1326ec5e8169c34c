import Koa from 'koa'
import Router from '@koa/router'
import { createReadStream } from 'node:fs'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { sequelize, knex, User } from './models.mjs'

const app = new Koa()
const router = new Router()

router.get('/users', async (ctx) => {
  const { q } = ctx.query
  ctx.body = await sequelize.query(`SELECT * FROM users WHERE name LIKE '%${q}%'`) // ~bad:89
})

router.get('/users/sorted', async (ctx) => {
  ctx.body = await knex('users').orderByRaw('lower(' + ctx.query.column + ')') // ~bad:89
})

router.get('/users/:id', async (ctx) => {
  ctx.body = await User.findOne({ where: { id: ctx.params.id } }) // ~ok:89
})

router.get('/files/:name', (ctx) => {
  ctx.body = createReadStream(join('/srv/files', ctx.params.name)) // ~bad:22
})

router.get('/readme', (ctx) => {
  ctx.body = createReadStream('/srv/files/README.txt') // ~ok:22
})

router.post('/convert', (ctx) => {
  const child = spawn('sh', ['-c', `ffmpeg -i ${ctx.request.body.input} out.mp4`]) // ~bad:78
  ctx.body = child.pid
})

router.get('/go', (ctx) => {
  ctx.redirect(ctx.query.to) // ~bad:601
})

router.post('/rules', (ctx) => {
  const rule = new Function('order', ctx.request.body.source) // ~bad:95
  ctx.body = rule({ total: 3 })
})

class Banner extends HTMLElement {
  set message (value) {
    this.shadowRoot.innerHTML = `<p>${value}</p>` // ~bad:79
  }

  clear () {
    this.shadowRoot.replaceChildren() // ~ok:79
  }
}

async function notifyAll (users, send) {
  users.forEach(async user => await send(user)) // ~bad:0
}

async function notifyInOrder (users, send) {
  for (const user of users) await send(user) // ~ok:0
}

export { app, Banner, notifyAll, notifyInOrder }

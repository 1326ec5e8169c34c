import jwt from 'jsonwebtoken'
import https from 'node:https'
import { execSync } from 'node:child_process'
import type { Request, Response } from 'express'
import type { Repository } from 'typeorm'
import { Ticket } from './ticket'

export class TicketService {
  constructor(private readonly tickets: Repository<Ticket>, private readonly secret: string) {}

  async search(term: string): Promise<Ticket[]> {
    return this.tickets.query(`select * from ticket where title like '%${term}%'`) // ~bad:89
  }

  async searchSafely(term: string): Promise<Ticket[]> {
    return this.tickets.query('select * from ticket where title like $1', [`%${term}%`]) // ~ok:89
  }

  whoIs(token: string): unknown {
    return jwt.decode(token) // ~bad:347
  }

  whoIsVerified(token: string): unknown {
    return jwt.verify(token, this.secret, { algorithms: ['HS256'] }) // ~ok:347
  }

  async closeAll(ids: number[]): Promise<void> {
    ids.forEach(async (id) => { // ~bad:0
      await this.tickets.update(id, { state: 'closed' })
    })
  }

  async reopenAll(ids: number[]): Promise<void> {
    await Promise.all(ids.map(async (id) => { // ~ok:0
      await this.tickets.update(id, { state: 'open' })
    }))
  }

  async remove(id: number): Promise<boolean> {
    try {
      await this.tickets.delete(id)
    } catch (e) {} // ~bad:390
    return true
  }

  async touch(id: number): Promise<boolean> {
    try {
      await this.tickets.update(id, { seen: new Date() })
      return true
    } catch (error) { // ~ok:390
      console.warn('ticket %d was not touched', id, error)
      return false
    }
  }
}

export function renderComment(target: HTMLElement, comment: string): void {
  target.innerHTML = comment // ~bad:79
}

export function renderBadge(target: HTMLElement, count: number): void {
  target.innerHTML = '<span class="badge"></span>' // ~ok:79
  target.textContent = String(count) // ~ok:79
}

export function renderPreview(markup: string): void {
  document.write('<section>' + markup + '</section>') // ~bad:79
}

export function runLater(code: string): void {
  setTimeout('refresh(' + code + ')', 500) // ~bad:95
}

export function refreshLater(refresh: () => void): void {
  setTimeout(() => refresh(), 500) // ~ok:95
}

export const legacyAgent = new https.Agent({ rejectUnauthorized: false }) // ~bad:295
export const agent = new https.Agent({ keepAlive: true }) // ~ok:295

export function archive(req: Request, res: Response): void {
  const folder = req.body.folder as string
  execSync(`tar czf /backups/tickets.tgz ${req.body.folder}`) // ~bad:78
  res.json({ folder })
}

export async function proxy(req: Request, res: Response): Promise<void> {
  const upstream = await fetch(req.query.url as string) // ~bad:918
  res.send(await upstream.text())
}

export async function rates(res: Response): Promise<void> {
  const upstream = await fetch('https://rates.example.net/latest.json') // ~ok:918
  res.json(await upstream.json())
}

export function filterBy(pattern: string, names: string[]): string[] {
  const wanted = new RegExp('^' + pattern + '$') // ~bad:1333
  return names.filter((name) => wanted.test(name))
}

export function mergeInto(target: Record<string, unknown>, body: Record<string, unknown>): void {
  for (const key in body) {
    target[key] = body[key]
  }
}

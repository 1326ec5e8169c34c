'use strict'

const { exec, execFile } = require('node:child_process')
const crypto = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')
const express = require('express')
const serialize = require('node-serialize')
const { pool } = require('./db')

const router = express.Router()
const INVOICES = path.join(__dirname, '..', 'invoices')

router.get('/calc', (req, res) => {
  const total = eval(req.query.formula) // ~bad:95
  res.json({ total })
})

router.get('/calc/safe', (req, res) => {
  const total = Number.parseFloat(req.query.amount) * 1.2 // ~ok:95
  res.json({ total })
})

router.get('/orders/:id', async (req, res, next) => {
  try {
    const sql = "SELECT * FROM orders WHERE id = '" + req.params.id + "'" // ~bad:89
    const { rows } = await pool.query(sql)
    res.json(rows[0])
  } catch (err) {
    next(err)
  }
})

router.get('/orders/by-customer/:name', async (req, res, next) => {
  try {
    const { rows } = await pool.query(`SELECT * FROM orders WHERE customer = '${req.params.name}'`) // ~bad:89
    res.json(rows)
  } catch (err) {
    next(err)
  }
})

router.get('/orders/by-status/:status', async (req, res, next) => {
  try {
    const { rows } = await pool.query('SELECT * FROM orders WHERE status = $1', [req.params.status]) // ~ok:89
    res.json(rows)
  } catch (err) {
    next(err)
  }
})

router.get('/invoice', (req, res) => {
  res.sendFile(path.join(INVOICES, req.query.file)) // ~bad:22
})

router.get('/invoice/safe', (req, res) => {
  res.sendFile(path.basename(req.query.file), { root: INVOICES }) // ~ok:22
})

router.get('/export', (req, res) => {
  const name = req.query.name
  fs.readFile('./exports/' + req.query.name, 'utf8', (err, text) => { // ~bad:22
    if (err) return res.status(404).end()
    res.type('text').send(text)
  })
})

router.post('/thumbnail', (req, res) => {
  exec('convert ' + req.body.source + ' -resize 200x200 out.png', (err) => { // ~bad:78
    res.status(err ? 500 : 204).end()
  })
})

router.post('/thumbnail/safe', (req, res) => {
  execFile('convert', [req.body.source, '-resize', '200x200', 'out.png'], (err) => { // ~ok:78
    res.status(err ? 500 : 204).end()
  })
})

router.get('/version', (req, res) => {
  exec('git rev-parse HEAD', (err, stdout) => res.send(stdout.trim())) // ~ok:78
})

router.post('/session', (req, res) => {
  const profile = serialize.unserialize(req.cookies.profile) // ~bad:502
  res.json({ hello: profile.name })
})

router.get('/login/return', (req, res) => {
  res.redirect(req.query.next) // ~bad:601
})

router.get('/logout', (req, res) => {
  res.redirect('/') // ~ok:601
})

router.get('/greet', (req, res) => {
  res.send('<h1>Hello ' + req.query.name + '</h1>') // ~bad:79
})

function passwordDigest (password) {
  return crypto.createHash('md5').update(password).digest('hex') // ~bad:327
}

function etag (body) {
  return crypto.createHash('sha256').update(body).digest('base64url') // ~ok:327
}

function resetToken () {
  return Math.random().toString(36).slice(2) // ~bad:338
}

function jitter (base) {
  return base + Math.random() * 100 // ~ok:338
}

function inviteToken () {
  return crypto.randomBytes(24).toString('hex') // ~ok:338
}

module.exports = { router, passwordDigest, etag, resetToken, jitter, inviteToken }

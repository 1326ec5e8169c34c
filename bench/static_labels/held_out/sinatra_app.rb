require 'sinatra'
require 'sqlite3'
require 'erb'

DB = SQLite3::Database.new('shop.db')

get '/items' do
  DB.execute("SELECT * FROM items WHERE name = '#{params['name']}'").to_json # ~bad:89
end

get '/items/:id' do
  DB.execute('SELECT * FROM items WHERE id = ?', [params['id']]).to_json # ~ok:89
end

get '/pages/:page' do
  File.read("pages/#{params['page']}") # ~bad:22
end

get '/hello' do
  ERB.new("<h1>Hello #{params['name']}</h1>").result # ~bad:1336
end

post '/deploy' do
  output = `./deploy.sh #{params['env']}` # ~bad:78
  output
end

post '/restart' do
  system('systemctl', 'restart', 'shop') # ~ok:78
end

post '/load' do
  cart = Marshal.load(request.body.read) # ~bad:502
  cart.to_json
end

get '/next' do
  redirect params['url'] # ~bad:601
end

helpers do
  def api_key
    Array.new(32) { rand(16).to_s(16) }.join # ~bad:338
  end

  def color
    %w[red green blue].sample # ~ok:338
  end
end

# frozen_string_literal: true

require 'digest'
require 'open3'
require 'yaml'

class PostsController < ApplicationController
  def index
    @posts = Post.where("title LIKE '%#{params[:q]}%'") # ~bad:89
  end

  def by_author
    @posts = Post.where('author = ?', params[:author]) # ~ok:89
  end

  def by_tag
    @posts = Post.where(tag: params[:tag]) # ~ok:89
  end

  def report
    rows = ActiveRecord::Base.connection.execute("SELECT * FROM posts WHERE id = #{params[:id]}") # ~bad:89
    render json: rows
  end

  def sorted
    @posts = Post.order("#{params[:sort]} ASC") # ~bad:89
  end

  def import
    settings = YAML.load(params[:settings]) # ~bad:502
    render json: settings
  end

  def import_safely
    settings = YAML.safe_load(params[:settings]) # ~ok:502
    render json: settings
  end

  def restore
    draft = Marshal.load(Base64.decode64(cookies[:draft])) # ~bad:502
    render json: draft
  end

  def convert
    system("convert #{params[:file]} out.png") # ~bad:78
    head :no_content
  end

  def convert_safely
    system('convert', params[:file], 'out.png') # ~ok:78
    head :no_content
  end

  def blame
    render plain: `git blame #{params[:path]}` # ~bad:78
  end

  def revision
    render plain: `git rev-parse HEAD` # ~ok:78
  end

  def calculate
    render json: eval(params[:formula]) # ~bad:95
  end

  def dispatch_action
    Post.find(params[:id]).send(params[:method]) # ~bad:470
  end

  def attachment
    send_file Rails.root.join('uploads', params[:name]) # ~bad:22
  end

  def logo
    send_file Rails.root.join('public', 'logo.png') # ~ok:22
  end

  def back
    redirect_to params[:return_to] # ~bad:601
  end

  def home
    redirect_to root_path # ~ok:601
  end

  def show
    @body = params[:body].html_safe # ~bad:79
  end

  def digest(password)
    Digest::MD5.hexdigest(password) # ~bad:327
  end

  def checksum(body)
    Digest::SHA256.hexdigest(body) # ~ok:327
  end

  def reset_token
    rand(36**16).to_s(36) # ~bad:338
  end

  def invite_token
    SecureRandom.hex(24) # ~ok:338
  end

  def cached
    read_cache
  rescue StandardError # ~bad:390
  end

  def fetched
    read_cache
  rescue IOError => e # ~ok:390
    Rails.logger.warn(e)
    nil
  end

  def insecure(uri)
    http = Net::HTTP.new(uri.host, uri.port)
    http.verify_mode = OpenSSL::SSL::VERIFY_NONE # ~bad:295
    http
  end

  def constant
    params[:kind].constantize.new # ~bad:470
  end

  def create
    @post = Post.new(params.require(:post).permit(:title, :body)) # ~ok:915
  end

  def create_from_all
    @post = Post.new(params.permit!) # ~bad:915
  end
end
